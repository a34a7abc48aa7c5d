"""Statements about a game's verifiers, on figures of synthetic rounds."""

import pytest

from pvg_hf.core.figure import EMPTY, Figure
from pvg_hf.evaluation.verifier_verdict import compare_verifiers, verifier_statements
from pvg_hf.run.read import RoundData

PAIRS, HELDOUT = 1200, 900


def share(value, *, n=400):
    """A rate with an interval of three points to either side."""
    return Figure(value, max(0.0, value - 0.03), min(1.0, value + 0.03), n)


def change(value, *, n=60):
    return Figure(value, value - 0.05, value + 0.05, n)


def accepted(verifier, pool, value, of=None):
    """The share that a verifier accepts, with its change from that of the pool's own verifier."""
    place = f"{verifier:03d}/{'base' if pool < 0 else f'round-{pool:03d}'}"
    found = {f"pools/accepted/round-{place}": share(value)}
    return found if of is None else found | {f"pools/accepted_change/round-{place}": change(value - of)}


def quality(*, own_pairs=0.7, heldout=0.83, auc=0.85, completeness=0.935, exploits=0.944):
    return {
        "test_pair_accuracy": share(own_pairs, n=PAIRS),
        "verifier_pair_accuracy": share(heldout, n=HELDOUT),
        "verifier_auc": share(auc, n=HELDOUT),
        "completeness": share(completeness),
        "exploit_rate": share(exploits),
    }


FIRST = RoundData(0, figures=quality() | accepted(0, -1, 0.5) | accepted(0, 0, 0.894))


def second(*, base=0.2, first=0.197, own=0.6, **figures):
    """The round after `FIRST`, with its verifier on each pool; the first verifier accepts .55 of the new one."""
    return RoundData(
        1,
        figures=quality(**figures)
        | accepted(1, -1, base, of=0.5)
        | accepted(1, 0, first, of=0.894)
        | accepted(1, 1, own)
        | accepted(0, 1, 0.55, of=own),
    )


def said(*rounds):
    return {statement.subject: statement for statement in verifier_statements(rounds)}


def test_before_the_first_evaluation_nothing_is_said():
    assert verifier_statements([]) == []


def test_a_first_round_is_judged_by_its_own_prover():
    (statement,) = verifier_statements([FIRST])
    assert (statement.mark, statement.subject) == ("plain", "Verifier 0 on its own prover")
    assert (
        statement.text
        == "it orders 70.0 % [67.0, 73.0] (n=1,200) of the pairs of a correct and an incorrect solution rightly (by"
        " chance 50 %): clearly better than chance. Where it accepts 95 % of the helpful correct solutions, it"
        " accepts 89.4 % [86.4, 92.4] (n=400) of the sneaky mistakes (by chance 95 %): clearly better than chance."
    )


@pytest.mark.parametrize(
    ("pairs", "own", "mark", "pair_words", "words"),
    [
        (0.7, 0.6, "plain", "clearly better", "clearly better"),
        (0.425, 0.6, "bad", "clearly worse", "clearly better"),
        (0.51, 0.6, "bad", "not clearly better", "clearly better"),
        (0.7, 0.94, "bad", "clearly better", "not clearly better"),
        (0.7, 0.99, "bad", "clearly better", "clearly worse"),
    ],
    ids=["better", "below chance", "pairs by chance", "accepted by chance", "accepts more"],
)
def test_a_verifier_is_bad_unless_it_clearly_beats_chance_on_its_own_prover(pairs, own, mark, pair_words, words):
    statement = said(FIRST, second(own_pairs=pairs, own=own))["Verifier 1 on its own prover"]
    assert statement.mark == mark
    assert f"rightly (by chance 50 %): {pair_words} than chance. Where" in statement.text
    assert f"(by chance 95 %): {words} than chance." in statement.text
    assert statement.text.endswith(
        " Earlier verifiers, which this prover was not trained against, accept 55.0 % [52.0, 58.0] (n=400)"
        " (verifier 0)."
    )


def test_a_better_verifier_accepts_fewer_on_every_pool():
    statement = said(FIRST, second(base=0.3))["Verifier 1 against verifier 0"]
    assert (statement.mark, statement.tag) == ("good", "as hoped")
    assert (
        statement.text
        == "worst on the sneaky mistakes of the base prover: verifier 1 accepts 30.0 % [27.0, 33.0] (n=400) and"
        " verifier 0 50.0 % [47.0, 53.0] (n=400), each where it accepts 95 % of the helpful correct solutions."
        " Change -20.0 points [-25.0, -15.0]: clearly fewer than verifier 0. Elsewhere: no clear change on prover 1"
        " (trained against verifier 1); clearly fewer on prover 0 (trained against verifier 0)."
    )


def test_a_worse_verifier_leads_with_its_worst_pool():
    statement = said(FIRST, second(base=0.8, first=0.97))["Verifier 1 against verifier 0"]
    assert (statement.mark, statement.tag) == ("bad", "not as hoped")
    assert (
        statement.text
        == "worst on the sneaky mistakes of the base prover: verifier 1 accepts 80.0 % [77.0, 83.0] (n=400) and"
        " verifier 0 50.0 % [47.0, 53.0] (n=400), each where it accepts 95 % of the helpful correct solutions."
        " Change +30.0 points [+25.0, +35.0]: clearly more than verifier 0. Elsewhere: clearly more on prover 0"
        " (trained against verifier 0); no clear change on prover 1 (trained against verifier 1)."
    )


@pytest.mark.parametrize(
    ("base", "mark", "words"),
    [(0.6, "bad", "clearly more than verifier 0"), (0.51, "open", "not clearly different from verifier 0")],
    ids=["worse on one pool", "unclear on one pool"],
)
def test_a_gain_on_one_pool_does_not_hide_the_worst_one(base, mark, words):
    statement = said(FIRST, second(base=base, first=0.2))["Verifier 1 against verifier 0"]
    assert statement.mark == mark
    assert statement.text.startswith("worst on the sneaky mistakes of the base prover: ")
    assert f"{words}. Elsewhere: no clear change on prover 1" in statement.text
    assert statement.text.endswith("; clearly fewer on prover 0 (trained against verifier 0).")


def test_a_verifier_that_accepts_more_of_its_own_prover_only_is_not_blamed_for_it():
    """So it is in every game: the prover was trained to deceive this verifier, and no other."""
    statement = said(FIRST, second(base=0.3, own=0.9))["Verifier 1 against verifier 0"]
    assert statement.mark == "good"
    assert "Elsewhere: clearly more on prover 1 (trained against verifier 1); clearly fewer on" in statement.text


# The review's case: round 2 starved. Its own threshold rejects so much that it accepts 22.7 % of its prover's
# mistakes, after 94.4 %.
GOOD = second(base=0.48, first=0.197, own_pairs=0.72)
DEGENERATE = RoundData(
    2,
    figures=quality(own_pairs=0.52, heldout=0.65, auc=0.66, completeness=0.551, exploits=0.227)
    | accepted(2, -1, 0.7, of=0.5)
    | accepted(2, 0, 0.681, of=0.894)
    | accepted(2, 1, 0.75, of=0.6)
    | accepted(2, 2, 0.68)
    | accepted(1, 2, 0.5, of=0.68)
    | accepted(0, 2, 0.6, of=0.68),
)


def test_a_degenerate_verifier_is_not_praised_for_rejecting_everything():
    statements = verifier_statements([FIRST, GOOD, DEGENERATE])
    assert [(statement.mark, statement.subject) for statement in statements] == [
        ("bad", "Verifier 2 on its own prover"),
        ("bad", "Verifier 2 got worse"),
        ("bad", "Verifier 2 against verifier 1"),
        ("bad", "Verifier 2 against verifier 0"),
    ]
    own, fell, before, first = (statement.text for statement in statements)
    assert "it accepts 68.0 % [65.0, 71.0] (n=400) of the sneaky mistakes" in own
    assert own.endswith(
        "Earlier verifiers, which this prover was not trained against, accept 50.0 % [47.0, 53.0] (n=400) (verifier 1)"
        " and 60.0 % [57.0, 63.0] (n=400) (verifier 0)."
    )
    assert (
        fell
        == "pair accuracy, held-out, fell to 65.0 % [62.0, 68.0] (n=900), from 83.0 % [80.0, 86.0] (n=900) in round 1;"
        " AUC, held-out, fell to 66.0 % [63.0, 69.0] (n=900), from 85.0 % [82.0, 88.0] (n=900) in round 1;"
        " completeness, own threshold, fell to 55.1 % [52.1, 58.1] (n=400), from 93.5 % [90.5, 96.5] (n=400) in"
        " round 1 (the intervals do not overlap)."
    )
    # Neither is the pool's own verifier: the interval is that of the ends of both.
    assert (
        before
        == "worst on the sneaky mistakes of prover 0: verifier 2 accepts 68.1 % [65.1, 71.1] (n=400) and verifier 1"
        " 19.7 % [16.7, 22.7] (n=400), each where it accepts 95 % of the helpful correct solutions. Change +48.4"
        " points [+42.4, +54.4]: clearly more than verifier 1. Elsewhere: clearly more on the base prover, prover 1"
        " (trained against verifier 1), prover 2 (trained against verifier 2)."
    )
    assert first.startswith("worst on the sneaky mistakes of the base prover: verifier 2 accepts 70.0 %")
    assert first.endswith(
        "Elsewhere: clearly more on prover 1, prover 2 (trained against verifier 2); clearly fewer on prover 0"
        " (trained against verifier 0)."
    )
    assert not any("22.7" in text for text in (own, fell, first))


def test_a_slow_fall_is_noticed_against_the_first_round():
    slow = [(0, 0.83), (1, 0.79), (2, 0.75)]
    *_, statement = verifier_statements(
        [RoundData(index, figures={"verifier_pair_accuracy": share(value)}) for index, value in slow]
    )
    assert (statement.mark, statement.subject) == ("bad", "Verifier 2 got worse")
    assert "fell to 75.0 % [72.0, 78.0] (n=400), from 83.0 % [80.0, 86.0] (n=400) in round 0 (" in statement.text


def test_a_fall_from_a_round_in_between_is_noticed():
    rising = [(0, 0.70), (1, 0.92), (2, 0.88), (3, 0.84)]
    *_, statement = verifier_statements(
        [RoundData(index, figures={"verifier_pair_accuracy": share(value)}) for index, value in rising]
    )
    assert (statement.mark, statement.subject) == ("bad", "Verifier 3 got worse")
    assert "fell to 84.0 % [81.0, 87.0] (n=400), from 92.0 % [89.0, 95.0] (n=400) in round 1 (" in statement.text


def test_a_prover_that_collapsed_leaves_nothing_to_judge():
    """It writes no mistake, so that there is neither a pair nor a share."""
    collapsed = {"test_pair_accuracy": EMPTY, "pools/accepted/round-001/round-001": EMPTY}
    found = said(FIRST, RoundData(1, figures=second().figures | collapsed))
    statement = found["Verifier 1 on its own prover"]
    assert (statement.mark, statement.tag) == ("open", "not clear")
    assert "orders unknown (no solution) of the pairs" in statement.text
    assert statement.text.count("too few (n=0) to tell") == 2
    assert found["Verifier 1 against verifier 0"].mark == "good"  # on the pools of the other provers


def test_too_few_solutions_tell_nothing():
    few = Figure(1.0, 0.6, 1.0, 4)
    figures = {"test_pair_accuracy": few, "pools/accepted/round-000/round-000": few}
    (statement,) = verifier_statements([RoundData(0, figures=figures)])
    assert statement.mark == "open"
    assert statement.text.count("too few (n=4) to tell") == 2
    scarce = second().figures | {"pools/accepted_change/round-001/base": change(0.3, n=4)}
    compared = said(FIRST, RoundData(1, figures=scarce))["Verifier 1 against verifier 0"]
    assert compared.mark == "open"
    assert "too few problems (n=4) to tell. Elsewhere: no clear change on prover 1 " in compared.text


@pytest.mark.parametrize("keys", [("pools/accepted",), ("pools/accepted_change",)], ids=["no shares", "no changes"])
def test_figures_that_a_round_lacks(keys):
    """
    An older version computed none of them; without the paired changes, the intervals of both shares are compared.
    """
    rounds = [
        RoundData(
            data.round_index, figures={name: data.figures[name] for name in data.figures if not name.startswith(keys)}
        )
        for data in (FIRST, second(base=0.3))
    ]
    found = compare_verifiers(rounds, 1, 0)
    if keys == ("pools/accepted",):
        assert found == []
    else:
        assert found[0].mark == "good"
        assert "Change -20.0 points [-26.0, -14.0]: clearly fewer" in found[0].text


def test_any_two_rounds_of_a_run_can_be_compared():
    (statement,) = compare_verifiers([FIRST, GOOD, DEGENERATE], 1, 0)
    assert statement.subject == "Verifier 1 against verifier 0"
    assert statement.text.startswith("worst on the sneaky mistakes of the base prover: verifier 1 accepts 48.0 %")
    assert statement.text.endswith(
        "Elsewhere: no clear change on prover 1 (trained against verifier 1); clearly fewer on prover 0 (trained"
        " against verifier 0), prover 2."
    )
