import math

import pytest

from pvg_hf.noise import pair_flip_rate, pair_outcome_rates


@pytest.mark.parametrize(
    ("rho0", "rho1", "expected"),
    [
        (0.0, 0.0, 0.0),
        (0.1, 0.1, 1 / 82),  # .01 / (.01 + .81)
        (0.2, 0.2, 1 / 17),  # .04 / (.04 + .64)
        (0.1, 0.3, 1 / 22),  # .03 / (.03 + .63)
        (0.3, 0.1, 1 / 22),
        (0.4, 0.0, 0.0),  # a reversed pair takes two flips
    ],
)
def test_pair_flip_rate_by_hand(rho0, rho1, expected):
    assert pair_flip_rate(rho0, rho1) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rate", "right", "reversed_", "tied"),
    [(0.0, 1.0, 0.0, 0.0), (0.1, 0.81, 0.01, 0.18), (0.2, 0.64, 0.04, 0.32), (0.3, 0.49, 0.09, 0.42)],
)
def test_pair_outcomes_when_half_are_correct(rate, right, reversed_, tied):
    assert pair_outcome_rates(rate, rate) == pytest.approx((right, reversed_, tied))


def test_two_thirds_of_pairs_are_ties_when_nine_in_ten_are_correct():
    # Pairs of each kind: .09 * .64 right, .09 * .04 reversed, .81 * .16 + .01 * .16 tied: .0576, .0036, .1312 of .1924
    rates = pair_outcome_rates(0.2, 0.2, share_correct=0.9)
    assert rates == pytest.approx((0.0576 / 0.1924, 0.0036 / 0.1924, 0.1312 / 0.1924))
    assert round(rates.tied, 2) == 0.68


def test_pair_outcomes_at_asymmetric_rates():
    # q = .6, rho0 = .1, rho1 = .3: .24 * .63 right, .24 * .03 reversed, .36 * .21 + .16 * .09 tied
    right, reversed_, tied = 0.1512, 0.0072, 0.09
    total = right + reversed_ + tied
    expected = (right / total, reversed_ / total, tied / total)
    assert pair_outcome_rates(0.1, 0.3, share_correct=0.6) == pytest.approx(expected)


@pytest.mark.parametrize("share_correct", [0.1, 0.5, 0.9])
def test_flip_rate_among_strict_pairs_needs_no_prevalence(share_correct):
    rates = pair_outcome_rates(0.15, 0.25, share_correct)
    assert rates.reversed / (rates.right + rates.reversed) == pytest.approx(pair_flip_rate(0.15, 0.25))


@pytest.mark.parametrize("function", [pair_flip_rate, pair_outcome_rates])
@pytest.mark.parametrize(
    ("rho0", "rho1", "message"),
    [
        (-0.1, 0.0, "`rho0` is -0.1"),
        (0.0, 1.0, "`rho1` is 1.0"),
        (math.nan, 0.0, "`rho0` is nan"),
        (0.5, 0.5, "0.5 \\+ 0.5 = 1.0; it must be below 1"),
    ],
)
def test_rates_outside_their_range_are_errors(function, rho0, rho1, message):
    with pytest.raises(ValueError, match=message):
        function(rho0, rho1)


@pytest.mark.parametrize("share_correct", [0.0, 1.0, -0.5])
def test_a_share_of_correct_solutions_outside_its_range_is_an_error(share_correct):
    with pytest.raises(ValueError, match=f"`share_correct` is {share_correct}"):
        pair_outcome_rates(0.1, 0.1, share_correct)
