"""Balanced best-of-n against an enumeration of all draws."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pvg_hf.core.figure import rate
from pvg_hf.evaluation.best_of_n import (
    balanced_best_of_n,
    predicted_best_of_n,
    share_of_correct_choices,
)


def enumerated(correct, incorrect, half):
    """The share over every way to draw `half` of either kind."""
    shares = []
    for right in combinations(correct, half):
        for wrong in combinations(incorrect, half):
            best = max(right + wrong)
            winners = right.count(best), wrong.count(best)
            shares.append(winners[0] / sum(winners))
    return np.mean(shares)


few_scores = st.lists(st.integers(0, 4).map(float), min_size=1, max_size=6)


@given(few_scores, few_scores, st.data())
def test_the_closed_form_equals_the_enumeration(correct, incorrect, data):
    half = data.draw(st.integers(1, min(len(correct), len(incorrect))))
    expected = enumerated(correct, incorrect, half)
    assert share_of_correct_choices(np.array(correct), np.array(incorrect), half) == pytest.approx(expected)


def test_best_of_n_by_hand():
    # Correct 3, 1; incorrect 2, 0. One of either: 3 beats both, 1 beats 0 only: 3 of 4. Two of either: 3 wins.
    correct, incorrect = np.array([3.0, 1.0]), np.array([2.0, 0.0])
    assert share_of_correct_choices(correct, incorrect, 1) == 0.75
    assert share_of_correct_choices(correct, incorrect, 2) == 1.0
    # All tied: chance.
    assert share_of_correct_choices(np.zeros(6), np.zeros(9), 3) == 0.5
    # Tied twice against once, all drawn: two in three.
    assert share_of_correct_choices(np.array([1.0, 1.0]), np.array([1.0, 0.0]), 2) == pytest.approx(2 / 3)


def test_a_thousand_samples_do_not_overflow():
    # One incorrect solution outscores everything: the choice is correct unless it is drawn, P = 1280 / 1300.
    incorrect = np.concatenate([[10.0], np.zeros(1299)])
    share = share_of_correct_choices(np.linspace(1, 2, 1300), incorrect, 1280)
    assert share == pytest.approx(20 / 1300)


def as_rows(problems):
    return pd.DataFrame(
        [(p, score, kind) for p, sides in problems.items() for kind, side in sides.items() for score in side],
        columns=["problem_id", "score", "correct"],
    )


def test_problems_without_enough_of_either_kind_are_left_out():
    rows = as_rows({
        "a": {True: [3.0, 1.0], False: [2.0, 0.0]},  # .75 at n = 2
        "b": {True: [1.0], False: [1.0, 1.0]},  # .5 at n = 2, not eligible at n = 4
        "c": {True: [1.0, 2.0], False: []},  # never eligible
    })  # fmt: skip
    pairs = balanced_best_of_n(rows, 2)
    assert (pairs.value, pairs.n) == (pytest.approx(0.625), 2)
    assert (balanced_best_of_n(rows, 4).value, balanced_best_of_n(rows, 4).n) == (1.0, 1)
    assert balanced_best_of_n(rows, 6).n == 0


def test_problems_that_all_agree_still_have_an_interval():
    rows = as_rows({f"p{i}": {True: [1.0], False: [0.0]} for i in range(20)})
    assert balanced_best_of_n(rows, 2) == rate(20, 20)


@pytest.mark.parametrize("n", [0, 3])
def test_an_odd_n_is_refused(n):
    with pytest.raises(ValueError, match=f"even .*got {n}"):
        balanced_best_of_n(as_rows({}), n)


def test_the_prediction_takes_all_problems_to_be_alike():
    """The correct solution scores higher within each problem, though problem b's scores lie above those of a."""
    rows = as_rows({"a": {True: [1.0], False: [0.0]}, "b": {True: [3.0], False: [2.0]}})
    assert balanced_best_of_n(rows, 2).value == 1.0
    predicted = predicted_best_of_n(rows, 2, seed=0, num_resamples=100)
    assert (predicted.value, predicted.n) == (0.75, 4)  # a's correct solution loses against b's incorrect one
    assert predicted_best_of_n(rows, 8, seed=0, num_resamples=100).value is not None  # without eight of either kind
