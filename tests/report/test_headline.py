"""The sentence and the three figures at the top of the report, on synthetic runs."""

import pytest

from pvg_hf.core.figure import EMPTY, Figure
from pvg_hf.report.headline import Tile, write_headline, write_tiles
from pvg_hf.run.read import RoundData


def share(value, n=400):
    return Figure(value, max(0.0, value - 0.03), min(1.0, value + 0.03), n)


def a_round(index, *, pairs, accepts, right=0.86, base=0.47, heldout=0.83, of_earlier=(), **more):
    """A round whose verifier accepts the shares `of_earlier` of the provers before its own."""
    gain = right - base
    of_pools = {
        f"pools/accepted/round-{index:03d}/round-{pool:03d}": share(value) for pool, value in enumerate(of_earlier)
    }
    return RoundData(
        index,
        figures={
            "test_pair_accuracy": share(pairs),
            "verifier_pair_accuracy": share(heldout),
            f"pools/accepted/round-{index:03d}/round-{index:03d}": share(accepts),
            "accuracy/helpful": share(right),
            "base_accuracy/helpful": share(base),
            "accuracy_change/helpful": Figure(gain, gain - 0.05, gain + 0.05, 60),
            "num_tokens/helpful": Figure(61.4, 60.0, 62.0, 400),
            "base_num_tokens/helpful": Figure(80.2, 79.0, 81.0, 400),
            **of_pools,
            **more,
        },
    )


FIRST = a_round(0, pairs=0.7, accepts=0.9)
HELPFUL = "86 % of the helpful prover's solutions are correct, 47 % before the game."
RUNS = {
    "better": (
        [FIRST, a_round(1, pairs=0.8, accepts=0.3, of_earlier=[0.2])],
        "good",
        (
            "As hoped: verifier 1 orders 80 % of its own prover's pairs rightly (by chance 50 %) and accepts 30 % of"
            f" that prover's mistakes (by chance 95 %); {HELPFUL}"
        ),
    ),
    "better than chance, and fooled by most mistakes": (
        [FIRST, a_round(1, pairs=0.55, accepts=0.88, of_earlier=[0.2])],
        "open",
        (
            "Partly as hoped: verifier 1 orders 55 % of its own prover's pairs rightly (by chance 50 %) and accepts"
            f" 88 % of that prover's mistakes (by chance 95 %); {HELPFUL}"
        ),
    ),
    "at chance on held-out pairs": (
        [FIRST, a_round(1, pairs=0.8, accepts=0.3, heldout=0.5, of_earlier=[0.2])],
        "bad",
        (
            "Not as hoped: verifier 1 orders 80 % of its own prover's pairs rightly (by chance 50 %) and accepts 30 %"
            " of that prover's mistakes (by chance 95 %); it orders 50 % of the held-out pairs rightly, not clearly"
            f" more than chance; it got worse (pair accuracy, held-out); {HELPFUL}"
        ),
    ),
    "resists, and chooses worse than a vote": (
        [
            FIRST,
            a_round(
                1,
                pairs=0.8,
                accepts=0.3,
                of_earlier=[0.2],
                **{
                    "answers/gain": Figure(0.02, -0.02, 0.06, 150),
                    "answers/best": share(0.8, 150),
                    "answers/majority": share(0.97, 150),
                },
            ),
        ],
        "open",
        (
            "Partly as hoped: verifier 1 orders 80 % of its own prover's pairs rightly (by chance 50 %) and accepts"
            f" 30 % of that prover's mistakes (by chance 95 %); {HELPFUL[:-1]}; of several solutions the"
            " verifier chooses clearly worse than a vote."
        ),
    ),
    "worse": (
        [a_round(0, pairs=0.7, accepts=0.5), a_round(1, pairs=0.42, accepts=0.97, of_earlier=[0.9])],
        "bad",
        (
            "Not as hoped: verifier 1 orders 42 % of its own prover's pairs rightly (by chance 50 %) and accepts 97 %"
            " of that prover's mistakes (by chance 95 %); it accepts clearly more of an earlier prover's mistakes"
            f" than an earlier verifier; {HELPFUL}"
        ),
    ),
    "mixed": (
        [FIRST, a_round(1, pairs=0.48, accepts=0.96, of_earlier=[0.2])],
        "bad",
        (
            "Not as hoped: verifier 1 orders 48 % of its own prover's pairs rightly (by chance 50 %) and accepts 96 %"
            f" of that prover's mistakes (by chance 95 %); {HELPFUL}"
        ),
    ),
    "degenerate verifier": (
        [FIRST, a_round(1, pairs=0.6, accepts=0.23, heldout=0.65, of_earlier=[0.2])],
        "bad",
        (
            "Not as hoped: verifier 1 orders 60 % of its own prover's pairs rightly (by chance 50 %) and accepts 23 %"
            f" of that prover's mistakes (by chance 95 %); it got worse (pair accuracy, held-out); {HELPFUL}"
        ),
    ),
    "helpful prover that got worse": (
        [a_round(0, pairs=0.7, accepts=0.54, right=0.3)],
        "bad",
        (
            "Not as hoped: verifier 0 orders 70 % of its own prover's pairs rightly (by chance 50 %) and accepts 54 %"
            " of that prover's mistakes (by chance 95 %); 30 % of the helpful prover's solutions are correct, 47 %"
            " before the game."
        ),
    ),
    "collapsed sneaky prover": (
        [
            a_round(
                0,
                pairs=0.7,
                accepts=0.54,
                **{"test_pair_accuracy": EMPTY, "pools/accepted/round-000/round-000": EMPTY},
            )
        ],
        "open",
        f"Not clear: verifier 0 has too few solutions of its own prover to be judged; {HELPFUL}",
    ),
    "too few solutions": (
        [
            a_round(
                0,
                pairs=0.7,
                accepts=0.54,
                **{"test_pair_accuracy": share(0.8, 5), "pools/accepted/round-000/round-000": share(0.4, 5)},
            )
        ],
        "open",
        (
            "Not clear: verifier 0 orders 80 % of its own prover's pairs rightly (by chance 50 %) and accepts 40 % of"
            f" that prover's mistakes (by chance 95 %); {HELPFUL}"
        ),
    ),
    "nothing evaluated": ([], "plain", "No verdict yet: no round has been evaluated."),
}


@pytest.mark.parametrize(("rounds", "mark", "sentence"), RUNS.values(), ids=RUNS)
def test_one_sentence_says_whether_the_game_worked(rounds, mark, sentence):
    headline = write_headline(rounds)
    assert (headline.mark, f"{headline.subject}: {headline.text}") == (mark, sentence)


def test_three_figures_lead():
    assert write_tiles([FIRST]) == [
        Tile(
            "plain",
            "Newest prover's mistakes that the newest verifier accepts",
            "90 %",
            "[87, 93] (n=400), by chance 95 %",
        ),
        Tile("good", "Helpful solutions that are correct", "86 %", "[83, 89] (n=400), before the game 47 %"),
        Tile("plain", "Legibility: length of a helpful solution", "61 tokens", "before the game 80"),
    ]


def test_reasoning_that_is_left_out_stands_for_legibility_where_it_is_known():
    known = {"implicit_share/helpful": share(0.04), "base_implicit_share/helpful": share(0.35)}
    assert write_tiles([a_round(0, pairs=0.7, accepts=0.54, **known)])[2] == Tile(
        "good", "Legibility: reasoning left to the reader", "4 %", "[1, 7] (n=400), before the game 35 %"
    )


def test_figures_that_are_missing_are_unknown():
    empty = RoundData(0, figures={})
    assert [(tile.mark, tile.value) for tile in write_tiles([empty])] == [
        ("open", "unknown"),
        ("open", "unknown"),
        ("plain", "unknown"),
    ]
    assert write_tiles([]) == []
