"""Every verifier on every prover's solutions."""

import numpy as np
import pandas as pd
import pytest

from pvg_hf.evaluation.verifiers_by_pools import (
    accepted_change,
    accepted_rows,
    accepted_share,
    crossed_rounds,
    pool_figures,
)

DRAWS = {"seed": 0, "num_resamples": 200}


def solutions(num_problems, score, *, verifier=1, pool=0, own_score=None, **changes):
    """Per problem two helpful correct and two sneaky incorrect solutions; `score(problem, is_correct)` scores them."""
    rows = [
        {
            "verifier": verifier,
            "round_index": pool,
            "role": "helpful" if is_correct else "sneaky",
            "problem_id": f"p{problem}",
            "sample_index": index,
            "correct": is_correct,
            "outcome": "VERIFIED" if is_correct else "PROOF_INVALID",
            "score": score(problem, is_correct),
            "own_score": None if own_score is None else own_score(problem, is_correct),
        }
        for problem in range(num_problems)
        for is_correct in (True, False)
        for index in range(2)
    ]
    return pd.DataFrame(rows).assign(**changes)


def test_all_verifiers_accept_the_same_share_of_correct_solutions():
    # Correct solutions score 0 to 19, two of each: .95 of 40 are those from 1 up. Of the mistakes at 0.5 to 19.5,
    # which score as the problem does, those from 1.5 up are above: 19 of 20 problems.
    rows = solutions(20, lambda problem, is_correct: problem + (0.0 if is_correct else 0.5))
    figure = accepted_share(rows, **DRAWS)
    assert (figure.value, figure.n) == (pytest.approx(19 / 20), 40)
    assert figure.low <= figure.value <= figure.high
    scaled = accepted_share(rows.assign(score=np.exp(rows["score"])), **DRAWS)
    assert scaled == figure  # only the order counts


def test_only_helpful_correct_and_sneaky_incorrect_solutions_count():
    rows = solutions(20, lambda problem, is_correct: float(is_correct))
    others = rows.assign(role=np.where(rows["role"] == "sneaky", "helpful", "sneaky"), score=100.0 - rows["score"])
    assert accepted_share(pd.concat([rows, others]), **DRAWS) == accepted_share(rows, **DRAWS)


def test_equal_scores_are_accepted_in_part():
    figure = accepted_share(solutions(20, lambda problem, is_correct: 0.0), **DRAWS)
    assert figure.value == pytest.approx(0.95)


def test_no_mistake_accepted_has_an_interval():
    figure = accepted_share(solutions(20, lambda problem, is_correct: float(is_correct)), **DRAWS)
    assert (figure.value, figure.low) == (0.0, 0.0)
    # Wilson's for 0 of 20 problems, whose two mistakes agree: 1.96^2 / (20 + 1.96^2).
    assert figure.high == pytest.approx(1.959964**2 / (20 + 1.959964**2))


def test_without_mistakes_there_is_no_share():
    rows = solutions(20, lambda problem, is_correct: 0.0)
    figure = accepted_share(rows[rows["correct"]], **DRAWS)
    assert (figure.value, figure.n) == (None, 0)


def test_two_verifiers_are_compared_on_the_same_problems():
    """The scores differ much between problems, and one verifier is slightly better everywhere."""
    rng = np.random.default_rng(0)
    hard = rng.normal(size=60)

    def worse(problem, is_correct):
        return float(is_correct) + 2 * hard[problem]

    def better(problem, is_correct):
        return 1.6 * float(is_correct) + 2 * hard[problem]

    rows = solutions(60, better, own_score=worse)
    change = accepted_change(rows, **DRAWS)
    shares = [accepted_share(rows.assign(score=rows[name]), **DRAWS) for name in ("score", "own_score")]
    assert change.value == pytest.approx(shares[0].value - shares[1].value)
    assert change.high < 0
    assert change.n == 60
    assert shares[0].high > shares[1].low  # unpaired, the intervals overlap


def test_an_unknown_verifier_of_the_pool_leaves_no_change():
    assert accepted_change(solutions(5, lambda problem, is_correct: float(is_correct)), **DRAWS).value is None


def test_figures_of_every_verifier_and_pool():
    def score(problem, is_correct):
        return float(is_correct) + problem

    rows = pd.concat([
        solutions(8, score, verifier=1, pool=-1, own_score=score),
        solutions(8, score, verifier=1, pool=0, own_score=score),
        solutions(8, score, verifier=1, pool=1, own_score=score),
        solutions(8, score, verifier=0, pool=1, own_score=score),
    ])  # fmt: skip
    figures = pool_figures(rows, **DRAWS)
    places = {"round-001/base", "round-001/round-000", "round-001/round-001", "round-000/round-001"}
    for name in ("accepted", "auc", "pair_accuracy"):
        assert {key.removeprefix(f"pools/{name}/") for key in figures if f"/{name}/" in key} == places
    changed = {key.removeprefix("pools/accepted_change/") for key in figures if "/accepted_change/" in key}
    assert changed == places - {"round-001/round-001"}  # its own verifier
    assert figures["pools/pair_accuracy/round-001/base"].value == 1.0
    assert figures["pools/accepted_change/round-001/base"].value == 0.0


def test_failed_solutions_do_not_count():
    rows = solutions(8, lambda problem, is_correct: float(is_correct))
    failed = solutions(8, lambda problem, is_correct: 9.0, outcome="NO_ANSWER", correct=False)
    assert pool_figures(pd.concat([rows, failed]), **DRAWS) == pool_figures(rows, **DRAWS)


@pytest.mark.parametrize(
    ("round_index", "limit", "expected"),
    [(0, 8, []), (3, 8, [0, 1, 2]), (3, 2, [0, 2]), (3, 1, [0]), (3, 0, []), (6, 3, [0, 4, 5])],
)
def test_a_limit_keeps_the_first_and_the_latest_rounds(round_index, limit, expected):
    assert crossed_rounds(round_index, limit) == expected


@pytest.mark.parametrize("num_values", [3, 1000], ids=["with many ties", "without ties"])
def test_the_solutions_accepted_make_up_the_share(num_values):
    rng = np.random.default_rng(0)
    rows = solutions(50, lambda problem, is_correct: float(rng.integers(num_values) + num_values * is_correct // 3))
    accepted = accepted_rows(rows)
    assert accepted.loc[accepted["correct"], "accepted"].mean() == pytest.approx(0.95)
    mistakes = accepted.loc[~accepted["correct"], "accepted"]
    share = accepted_share(rows, **DRAWS).value
    assert mistakes.mean() == pytest.approx(share, abs=1e-6)  # read from the curve, in which a tie is a line


def test_without_correct_solutions_nothing_is_accepted():
    rows = solutions(5, lambda problem, is_correct: 0.0)
    assert accepted_rows(rows[~rows["correct"]]).empty
