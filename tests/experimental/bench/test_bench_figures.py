import numpy as np
import pandas as pd
import pytest

from pvg_hf.experimental.bench.bench_figures import describe, measure


def make_rows(scores):
    """Rows of kinds with their scores; row k of a kind is of problem k modulo 10."""
    rows = [
        {"kind": kind, "problem_id": str(k % 10), "solution": f"{kind} {k}", "score": float(score)}
        for kind, of_kind in scores.items()
        for k, score in enumerate(of_kind)
    ]
    return pd.DataFrame(rows).assign(correct=lambda rows: rows["kind"] == "correct")


def test_the_figure_is_the_mean_over_the_kinds_at_95_percent_completeness():
    # 20 correct solutions score 1 to 20; 95 % of them score at least 2. Of the kind a, 3 of 4 are accepted; of b none.
    rows = make_rows({"correct": range(1, 21), "a": [2.5, 30, 40, 1], "b": [0, 1.5]})
    figures = measure(rows)
    assert figures.accepted["a"].value == pytest.approx(0.75)
    assert figures.accepted["b"].value == pytest.approx(0)
    assert figures.mistakes_accepted.value == pytest.approx(0.375)
    assert figures.mistakes_accepted.n == 6
    assert figures.worst == "a"
    # a: 30 and 40 beat all, 2.5 loses to 18 of 20, 1 loses to 19 and ties with one.
    assert figures.kind_auc["a"].value == pytest.approx((18 + 19.5) / 80)
    assert describe(figures).splitlines()[-1].startswith("mistakes accepted, mean over 2 kinds: 0.38")


def test_each_of_three_kinds_counts_once_and_with_its_own_mistakes():
    # Accepted are those from 2 on: all 6 of a, 1 of 2 of b, none of c.
    figures = measure(make_rows({"correct": range(1, 21), "a": [30] * 6, "b": [30, 0], "c": [0] * 4}))
    assert [figures.accepted[kind].value for kind in "abc"] == pytest.approx([1, 0.5, 0])
    assert figures.mistakes_accepted.value == pytest.approx(0.5)


def test_a_constant_verifier_accepts_95_percent():
    figures = measure(make_rows({"correct": [1] * 20, "a": [1] * 7, "b": [1] * 9}))
    assert figures.mistakes_accepted.value == pytest.approx(0.95)
    assert figures.auc.value == pytest.approx(0.5)


def test_scores_that_are_not_finite_are_an_error():
    with pytest.raises(ValueError, match=r"solution 1 \('correct 1'\) is nan; 1 of 3 scores"):
        measure(make_rows({"correct": [1, np.nan], "a": [0]}))
