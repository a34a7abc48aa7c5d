"""Figures and their intervals."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pvg_hf.evaluation.intervals import (
    Figure,
    bootstrap_statistic,
    difference,
    mean_by_problem,
    rate,
    rate_by_problem,
    ratio_by_problem,
)

DRAWS = {"seed": 0, "num_resamples": 2000}


def test_wilson_interval_by_hand():
    # p = 8/10, z = 1.959964: center (p + z^2/2n)/(1 + z^2/n), half-width z sqrt(p(1-p)/n + z^2/4n^2)/(1 + z^2/n)
    z, p, n = 1.959963984540054, 0.8, 10
    center = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    figure = rate(8, 10)
    assert (figure.value, figure.n) == (0.8, 10)
    assert (figure.low, figure.high) == pytest.approx((center - half, center + half))
    assert (round(figure.low, 2), round(figure.high, 2)) == (0.49, 0.94)


def test_a_figure_without_data_is_none_and_never_nan():
    empty = Figure(None, None, None, 0)
    assert rate(0, 0) == empty
    assert rate_by_problem([], []) == empty
    assert mean_by_problem([], [], **DRAWS) == empty
    assert difference([1.0], ["a"], [], [], **DRAWS) == empty
    assert bootstrap_statistic(lambda weights: weights.sum(1), [], **DRAWS) == empty
    assert ratio_by_problem(np.zeros(2), np.zeros(2), **DRAWS) == empty


@pytest.mark.parametrize(("successes", "n"), [(3, 2), (-1, 4)])
def test_impossible_rates_are_refused(successes, n):
    with pytest.raises(ValueError, match=r"must lie in \[0, n\]"):
        rate(successes, n)


def test_rate_by_problem_with_one_solution_per_problem_is_plain_wilson():
    assert rate_by_problem([1, 1, 1, 0], ["a", "b", "c", "d"]) == rate(3, 4)


def test_solutions_that_always_agree_within_a_problem_count_as_one():
    # Ten problems with four solutions each, all alike; seven problems solved: as informative as 7 of 10.
    solved = np.repeat([1] * 7 + [0] * 3, 4)
    figure = rate_by_problem(solved, np.repeat(np.arange(10), 4))
    assert (figure.low, figure.high) == pytest.approx((rate(7, 10).low, rate(7, 10).high))
    assert (figure.value, figure.n) == (0.7, 40)


def test_effective_sample_size_by_hand():
    # Problems a: 1 1, b: 1 0; p = 3/4. Residual sums: a 2 - 1.5 = .5, b 1 - 1.5 = -.5; v = .5/16 = 1/32.
    # Effective n = (3/16) / (1/32) = 6, more than the 4 there are, so 4.
    assert rate_by_problem([1, 1, 1, 0], ["a", "a", "b", "b"]) == rate(3, 4)
    # Problems a: 1 1 1, b: 0, p = 3/4. Residuals .75 and -.75; v = 1.125/16; effective n = .1875 * 16 / 1.125 = 8/3.
    figure = rate_by_problem([1, 1, 1, 0], ["a", "a", "a", "b"])
    z2, n = 1.959963984540054**2, 8 / 3
    center, half = (0.75 + z2 / 2 / n) / (1 + z2 / n), math.sqrt(z2 * (0.1875 / n + z2 / 4 / n**2)) / (1 + z2 / n)
    assert (figure.low, figure.high) == pytest.approx((center - half, center + half))


def test_a_rate_takes_zeros_and_ones_only():
    with pytest.raises(ValueError, match="A rate takes 0 and 1"):
        rate_by_problem([0.5, 1], ["a", "b"])


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4)), min_size=1, max_size=30))
def test_a_rate_lies_within_its_interval(rows):
    successes, problem_ids = zip(*rows)
    figure = rate_by_problem(successes, problem_ids)
    assert 0 <= figure.low <= figure.value <= figure.high <= 1
    # Alike or not, n solutions tell no more than n independent ones.
    independent = rate(sum(successes), len(successes))
    assert figure.high - figure.low >= independent.high - independent.low - 1e-9


def test_intervals_of_clustered_rates_cover_the_truth():
    # 40 problems, 8 solutions each, problem rates from Beta(1, 1): the true rate is .5. With 300 trials a coverage of
    # .95 has a standard error of .0126, so 4 standard errors below is .90. Plain Wilson covers .72 here.
    rng = np.random.default_rng(0)
    ids = np.repeat(np.arange(40), 8)
    figures = [rate_by_problem(rng.random(320) < np.repeat(rng.random(40), 8), ids) for _ in range(300)]
    assert 0.90 <= np.mean([figure.low <= 0.5 <= figure.high for figure in figures]) <= 0.99


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
    with pytest.raises(ValueError, match="1 of 2 values are not finite"):
        mean_by_problem([1.0, float("nan")], ["a", "b"], **DRAWS)
    with pytest.raises(ValueError, match="2 values came with 1 problem ids"):
        mean_by_problem([1.0, 2.0], ["a"], **DRAWS)


def test_the_blocks_of_a_large_bootstrap_change_nothing(monkeypatch):
    values, ids = np.arange(60.0), np.repeat(np.arange(20), 3)
    whole = mean_by_problem(values, ids, **DRAWS)
    monkeypatch.setattr("pvg_hf.evaluation.intervals._BLOCK_SIZE", 100)
    assert mean_by_problem(values, ids, **DRAWS) == whole


def test_a_paired_difference_is_free_of_the_problems_difficulty():
    # Side a is side b + .1 on every problem: paired, each resample's difference is .1 exactly.
    difficulty = np.random.default_rng(2).normal(0, 5, 50)
    ids = [f"p{i}" for i in range(50)]
    figure = difference(difficulty + 0.1, ids, difficulty[::-1], ids[::-1], **DRAWS)
    assert (figure.value, figure.low, figure.high) == pytest.approx((0.1, 0.1, 0.1))
    assert figure.n == 50


def test_a_difference_of_different_problems_adds_the_variances():
    # Var = s_a^2/n_a + s_b^2/n_b; tolerance as in the test of the mean.
    rng = np.random.default_rng(3)
    first, second = rng.normal(1, 1, 300), rng.normal(0, 2, 200)
    figure = difference(first, np.arange(300), second, 1000 + np.arange(200), **DRAWS)
    error = math.sqrt(first.var() / 300 + second.var() / 200)
    assert figure.value == pytest.approx(first.mean() - second.mean())
    assert figure.high - figure.low == pytest.approx(2 * 1.96 * error, rel=0.2)
    assert figure.n == 500


def test_a_partly_shared_difference_keeps_each_sides_number_of_problems():
    # a and b are alike and c stands on one side only: c is drawn once in every resample, so none differs from the value.
    figure = difference([2.0, 2.0, 5.0], ["a", "b", "c"], [1.0, 1.0], ["a", "b"], **DRAWS)
    assert figure == Figure(2.0, 2.0, 2.0, 3)


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


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (Figure(0.789, 0.75, 0.83, 400), "0.79 [0.75, 0.83] n=400"),
        (Figure(1.5, None, None, 1), "1.50 n=1"),
        (Figure(None, None, None, 0), "none n=0"),
    ],
)
def test_figures_read_well_and_survive_json(figure, text):
    assert str(figure) == text
    assert Figure.from_dict(figure.to_dict()) == figure
