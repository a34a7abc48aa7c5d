"""Intervals by resampling problems."""

import math

import numpy as np
import pytest

from pvg_hf.core.figure import EMPTY, Figure
from pvg_hf.evaluation.resampling import bootstrap_statistic, difference, mean_by_problem

DRAWS = {"seed": 0, "num_resamples": 2000}


def test_a_figure_without_data_is_empty():
    assert mean_by_problem([], [], **DRAWS) == EMPTY
    assert difference([1.0], ["a"], [], [], **DRAWS) == EMPTY
    assert bootstrap_statistic(lambda weights: weights.sum(1), [], **DRAWS) == EMPTY


def test_mean_by_problem_draws_problems_and_not_rows():
    # Two problems with 100 equal values each. Drawing problems gives means 0, 1/2, 1 with probabilities 1/4, 1/2, 1/4,
    # so the 2.5 % and 97.5 % points are 0 and 1; drawing rows would give about .5 +- .07.
    figure = mean_by_problem([0.0] * 100 + [1.0] * 100, ["a"] * 100 + ["b"] * 100, **DRAWS)
    assert figure == Figure(0.5, 0.0, 1.0, 200)


def test_mean_by_problem_agrees_with_the_normal_interval():
    # 400 problems with one value each: half-width 1.96 s / sqrt(400); 2,000 resamples know a bound to about
    # sqrt(.025 * .975 / 2000) / density(1.96) = .06 standard errors, so .25 standard errors is over 4 sigma.
    values = np.random.default_rng(1).normal(3, 2, 400)
    figure = mean_by_problem(values, np.arange(400), **DRAWS)
    standard_error = values.std() / 20
    assert figure.value == pytest.approx(values.mean())
    assert figure.low == pytest.approx(values.mean() - 1.96 * standard_error, abs=0.25 * standard_error)
    assert figure.high == pytest.approx(values.mean() + 1.96 * standard_error, abs=0.25 * standard_error)


def test_one_problem_has_no_interval():
    assert mean_by_problem([1.0, 2.0], ["a", "a"], **DRAWS) == Figure(1.5, None, None, 2)


def test_values_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match=r"1 of 2 .*finite"):
        mean_by_problem([1.0, float("nan")], ["a", "b"], **DRAWS)
    with pytest.raises(ValueError, match=r"2 values .*1 problem ids"):
        mean_by_problem([1.0, 2.0], ["a"], **DRAWS)


def test_the_blocks_of_a_large_bootstrap_change_nothing(monkeypatch):
    values, ids = np.arange(60.0), np.repeat(np.arange(20), 3)
    whole = mean_by_problem(values, ids, **DRAWS)
    monkeypatch.setattr("pvg_hf.evaluation.resampling._BLOCK_SIZE", 100)
    assert mean_by_problem(values, ids, **DRAWS) == whole


def test_a_paired_difference_is_free_of_the_problems_difficulty():
    # Side a is side b + .1 or .3 by turns, on every problem: the difficulty's spread of 5 is not in the interval.
    difficulty = np.random.default_rng(2).normal(0, 5, 50)
    ids = [f"p{i}" for i in range(50)]
    figure = difference(difficulty + np.tile([0.1, 0.3], 25), ids, difficulty[::-1], ids[::-1], **DRAWS)
    # Standard error .1 / sqrt(50) = .0141; tolerance as in the test of the mean.
    assert (figure.value, figure.n) == (pytest.approx(0.2), 50)
    assert (figure.low, figure.high) == pytest.approx((0.2 - 1.96 * 0.0141, 0.2 + 1.96 * 0.0141), abs=0.25 * 0.0141)


def test_a_difference_of_different_problems_adds_the_variances():
    # Var = s_a^2/n_a + s_b^2/n_b; tolerance as in the test of the mean.
    rng = np.random.default_rng(3)
    first, second = rng.normal(1, 1, 300), rng.normal(0, 2, 200)
    figure = difference(first, np.arange(300), second, 1000 + np.arange(200), **DRAWS)
    error = math.sqrt(first.var() / 300 + second.var() / 200)
    assert figure.value == pytest.approx(first.mean() - second.mean())
    assert figure.high - figure.low == pytest.approx(2 * 1.96 * error, rel=0.2)
    assert figure.n == 500


def test_a_partly_shared_difference_draws_from_all_problems():
    # b is shared, a is on one side and c on the other: (0 + 4) / 2 - (4 + 8) / 2 = -4. Draws with b only give 0, and
    # with a and b or b and c -2 to -4, so that the interval reaches from about 0 downwards.
    figure = difference([0.0, 4.0], ["a", "b"], [4.0, 8.0], ["b", "c"], **DRAWS)
    assert (figure.value, figure.n, figure.high) == (-4.0, 3, 0.0)
    assert figure.low < -4


@pytest.mark.parametrize(
    ("values", "ids", "others", "other_ids"),
    [([1.0, 3.0], ["a", "b"], [0.0], ["c"]), ([2.0, 2.0, 5.0], ["a", "b", "c"], [1.0, 1.0, 4.0], ["a", "b", "c"])],
    ids=["one problem on a side", "every problem differs alike"],
)
def test_a_difference_of_unknown_spread_has_no_interval(values, ids, others, other_ids):
    figure = difference(values, ids, others, other_ids, **DRAWS)
    assert (figure.low, figure.high) == (None, None)
    assert figure.value in (1.0, 2.0)


def test_a_mean_of_values_that_all_agree_has_no_interval():
    assert mean_by_problem([0.1] * 6, list("aabbcc"), **DRAWS) == Figure(pytest.approx(0.1), None, None, 6)


def test_bootstrap_of_a_statistic_matches_the_mean():
    values, ids = np.arange(12.0), np.repeat(["a", "b", "c", "d"], 3)
    statistic = bootstrap_statistic(lambda weights: weights @ values / weights.sum(1), ids, **DRAWS)
    assert statistic == mean_by_problem(values, ids, **DRAWS)


def test_an_undefined_statistic_has_no_value():
    undefined = bootstrap_statistic(lambda weights: np.full(len(weights), np.nan), ["a", "b"], **DRAWS)
    assert undefined == Figure(None, None, None, 2)


def test_a_statistic_that_most_resamples_do_not_define_has_no_interval():
    # Defined only where problem `a` of two was drawn exactly once, half of the time or less.
    def statistic(weights):
        return np.where((weights == 1).all(1) & (np.arange(len(weights)) % 2 == 0), 1.0, np.nan)

    assert bootstrap_statistic(statistic, ["a", "b"], **DRAWS) == Figure(1.0, None, None, 2)
