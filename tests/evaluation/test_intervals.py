"""Figures and their intervals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pvg_hf.core.figure import EMPTY, Figure, rate
from pvg_hf.core.integrity import convert
from pvg_hf.evaluation.intervals import (
    bootstrap_statistic,
    difference,
    mean_by_problem,
    rate_by_problem,
    rate_difference,
    rate_of_counts,
    share_by_problem,
)

Z = 1.959963984540054


def test_wilson_interval_by_hand():
    # p = 8/10, z = 1.959964: center (p + z^2/2n)/(1 + z^2/n), half-width z sqrt(p(1-p)/n + z^2/4n^2)/(1 + z^2/n)
    z, p, n = Z, 0.8, 10
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
    assert share_by_problem([], []) == empty
    assert rate_difference([1], ["a"], [], []) == empty
    assert rate_of_counts(np.zeros(2), np.zeros(2)) == empty


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


def wilson(p, n):
    center, half = (
        (p + Z**2 / 2 / n) / (1 + Z**2 / n),
        Z * math.sqrt(p * (1 - p) / n + Z**2 / 4 / n**2) / (1 + Z**2 / n),
    )
    return pytest.approx((center - half, center + half))


def test_effective_sample_size_by_hand():
    # Six problems with two solutions each, 2 2 2 1 1 0 solved: p = 8/12 = 2/3, expected 4/3 each. Squared excesses
    # 3 * 4/9 + 2 * 1/9 + 16/9 = 30/9; v = 30/9 / 144 * 6/5 = 1/36; p (1 - p) / v = 8. The t quantile of 5 degrees of
    # freedom is 2.570582, so 8 (z / t)^2 = 4.651, below the 6 problems that there are at least.
    ids = np.repeat(np.arange(6), 2)
    figure = rate_by_problem([1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 0], ids)
    assert (figure.low, figure.high) == wilson(2 / 3, 6)
    # 2 2 1 1 1 1: excesses .667 twice and -.333 four times, squares 4/3; v = 4/3 / 144 * 6/5 = 1/90; p (1 - p) / v =
    # 20, and 20 (z / t)^2 = 11.627, below the 12 solutions.
    figure = rate_by_problem([1, 1, 1, 1, 1, 0, 1, 0, 1, 0, 1, 0], ids)
    assert (figure.low, figure.high) == wilson(2 / 3, 20 * (Z / 2.5705818) ** 2)


def test_problems_of_unlike_sizes_count_as_fewer():
    # Three pairs of one problem and one of another, all won: (3 + 1)^2 / (9 + 1) = 1.6 problems.
    figure = rate_of_counts(np.array([3.0, 1.0]), np.array([3.0, 1.0]))
    assert (figure.low, figure.high) == wilson(1.0, 1.6)
    assert figure.n == 4


def test_two_problems_that_agree_by_chance_count_as_two():
    # Both are half solved, so no variance is seen.
    figure = rate_by_problem([1, 0] * 8, ["a"] * 8 + ["b"] * 8)
    assert (figure.low, figure.high) == wilson(0.5, 2)


def test_a_tie_counts_half():
    figure = rate_by_problem([1, 0.5, 0.5, 0], ["a", "b", "c", "d"])
    assert (figure.value, figure.low, figure.high) == (0.5, *(rate(2, 4).low, rate(2, 4).high))


def test_rates_of_one_still_have_an_interval_that_covers_the_truth():
    # 40 problems with a pair each, true rate .97: 30 % of samples hold no loss. Standard error as below, so at least
    # .90; a bootstrap covers .70.
    rng = np.random.default_rng(0)
    figures = [rate_by_problem(rng.random(40) < 0.97, np.arange(40)) for _ in range(300)]
    assert np.mean([figure.low <= 0.97 <= figure.high for figure in figures]) >= 0.90


def test_a_rate_takes_zeros_and_ones_only():
    with pytest.raises(ValueError, match="0, 1 and ties"):
        rate_by_problem([0.3, 1], ["a", "b"])
    with pytest.raises(ValueError, match=r"Shares lie in \[0, 1\]"):
        share_by_problem([0.3, 1.1], ["a", "b"])


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4)), min_size=1, max_size=30))
def test_a_rate_lies_within_its_interval(rows):
    successes, problem_ids = zip(*rows)
    figure = rate_by_problem(successes, problem_ids)
    assert 0 <= figure.low <= figure.value <= figure.high <= 1
    # Alike or not, n solutions have at most the information of n independent ones.
    independent = rate(sum(successes), len(successes))
    assert figure.high - figure.low >= independent.high - independent.low - 1e-9


def test_intervals_of_clustered_rates_cover_the_truth():
    # 40 problems, 8 solutions each, problem rates from Beta(1, 1): the true rate is .5. With 300 trials a coverage of
    # .95 has a standard error of .0126, so 4 standard errors below is .90. Plain Wilson covers .72 here.
    rng = np.random.default_rng(0)
    ids = np.repeat(np.arange(40), 8)
    figures = [rate_by_problem(rng.random(320) < np.repeat(rng.random(40), 8), ids) for _ in range(300)]
    assert 0.90 <= np.mean([figure.low <= 0.5 <= figure.high for figure in figures]) <= 0.99


def test_shares_use_their_observed_spread():
    # Ten problems, shares .7 and .9 by turns: p = .8, squared excesses 10 * .01, v = .1 / 100 * 10/9 = 1/900. So
    # p (1 - p) / v = 144, and with 2.262157 for 9 degrees of freedom 144 (z / t)^2 = 108.1: more than ten coins.
    figure = share_by_problem([0.7, 0.9] * 5, np.arange(10))
    assert (figure.low, figure.high) == wilson(0.8, 144 * (Z / 2.2621572) ** 2)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_shares_that_all_agree_count_as_a_trial_each(share):
    figure = share_by_problem([share] * 5, np.arange(5))
    assert (figure.low, figure.high) == wilson(share, 5)


def test_a_difference_of_rates_without_shared_problems_is_newcombes():
    # Newcombe (1998), table II (a), method 10: 56/70 - 48/80 = .2, [.0524, .3339].
    figure = rate_difference([1] * 56 + [0] * 14, np.arange(70), [1] * 48 + [0] * 32, 100 + np.arange(80))
    assert (figure.value, figure.n) == (pytest.approx(0.2), 150)
    assert (round(figure.low, 4), round(figure.high, 4)) == (0.0524, 0.3339)


def test_a_difference_between_none_and_all_keeps_its_width():
    # Wilson of 3 of 3 begins at 3 / (3 + z^2) = .4385, that of 0 of 3 ends at 1 - .4385. Nothing is known of the
    # pairing.
    figure = rate_difference([1, 1, 1], ["a", "b", "c"], [0, 0, 0], ["a", "b", "c"])
    bound = Z**2 / (3 + Z**2)
    assert (figure.value, figure.high) == (1.0, 1.0)
    assert figure.low == pytest.approx(1 - math.sqrt(2) * bound)


def test_pairing_takes_out_the_problems_difficulty():
    # Half of 40 problems are solved on both sides: r = 1, and with four unrelated ones 40/44. Both bounds of .5 of 40
    # lie w away, so that the difference is 0 +- w sqrt(2 (1 - 40/44)); unpaired it is 0 +- w sqrt(2).
    solved, ids = np.repeat([0, 1], 20), np.arange(40)
    width = rate(20, 40).high - 0.5
    paired, unpaired = rate_difference(solved, ids, solved, ids), rate_difference(solved, ids, solved, 100 + ids)
    assert (paired.low, paired.high) == pytest.approx((-width * math.sqrt(8 / 44), width * math.sqrt(8 / 44)))
    assert (unpaired.low, unpaired.high) == pytest.approx((-width * math.sqrt(2), width * math.sqrt(2)))


@pytest.mark.parametrize(("base", "scale"), [(0.5, 0.5), (0.95, 0.05)])
def test_intervals_of_paired_differences_cover_the_truth(base, scale):
    # 20 problems, 4 solutions a side, of rates that both sides share: the true difference is 0. Bound as above.
    rng, ids = np.random.default_rng(1), np.repeat(np.arange(20), 4)
    covered = []
    for _ in range(300):
        rates = np.repeat(base + scale * rng.uniform(-1, 1, 20), 4)
        figure = rate_difference(rng.random(80) < rates, ids, rng.random(80) < rates, ids)
        covered.append(figure.low <= 0 <= figure.high)
    assert np.mean(covered) >= 0.90


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (Figure(0.789, 0.75, 0.83, 400), "0.79 [0.75, 0.83] n=400"),
        (Figure(1.5, None, None, 1), "1.50 n=1"),
        (Figure(None, None, None, 0), "none n=0"),
    ],
)
def test_figures_are_readable_and_survive_json(figure, text):
    assert str(figure) == text
    assert convert(figure.to_dict(), Figure) == figure


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
    monkeypatch.setattr("pvg_hf.evaluation.intervals._BLOCK_SIZE", 100)
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
