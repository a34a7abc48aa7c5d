import numpy as np
import pytest

from pvg_hf.noise.latent_class import rates_from_calls


def draw_calls(rho0, rho1, prevalence, *, num_items=2000, num_calls=3, seed=0):
    """Calls that err independently of each other."""
    rng = np.random.default_rng(seed)
    truths = rng.random(num_items) < prevalence
    accept = np.where(truths, 1 - rho1, rho0)[:, None]
    return (rng.random((num_items, num_calls)) < accept).astype(float)


def test_rates_of_expected_counts_are_found_to_the_last_digit():
    # Of 1,000 items 600 are correct; rho0 = .1, rho1 = .2. The expected numbers with 0, 1, 2 and 3 of 3 accepted, times
    # 10: 4,000 (.729, .243, .027, .001) + 6,000 (.008, .096, .384, .512).
    counts = [2916 + 48, 972 + 576, 108 + 2304, 4 + 3072]
    calls = np.concatenate([np.tile([1.0] * k + [0.0] * (3 - k), (n, 1)) for k, n in enumerate(counts)])
    estimate = rates_from_calls(calls)
    assert estimate.rates == pytest.approx((0.1, 0.2), abs=1e-3)
    assert estimate.prevalence.value == pytest.approx(0.6, abs=1e-3)
    assert estimate.prevalence.n == 10_000
    assert estimate.fit_p_value is None


@pytest.mark.parametrize(
    ("rho0", "rho1", "prevalence", "num_calls"),
    [(0.1, 0.2, 0.6, 3), (0.3, 0.05, 0.5, 4), (0.02, 0.4, 0.8, 5)],
)
def test_intervals_hold_the_true_values(rho0, rho1, prevalence, num_calls):
    # 10 seeds of three 95 % intervals each. Even if the three of a seed always missed together, more than two such seeds of
    # ten would come with probability .012; the seeds are fixed.
    held = 0
    for seed in range(10):
        calls = draw_calls(rho0, rho1, prevalence, num_calls=num_calls, num_items=800, seed=seed)
        estimate = rates_from_calls(calls)
        for rate, truth in ((estimate.rho0, rho0), (estimate.rho1, rho1), (estimate.prevalence, prevalence)):
            assert rate.low <= rate.value <= rate.high
            held += rate.low <= truth <= rate.high
    assert held >= 24


def test_abstentions_are_not_counted_as_answers():
    calls = draw_calls(0.1, 0.2, 0.5, num_calls=5)
    calls[np.random.default_rng(1).random(calls.shape) < 0.3] = np.nan
    estimate = rates_from_calls(calls)
    for rate, truth in ((estimate.rho0, 0.1), (estimate.rho1, 0.2)):
        assert abs(rate.value - truth) < rate.high - rate.low  # the interval is about four standard errors wide
    assert estimate.prevalence.n == int(((~np.isnan(calls)).sum(axis=1) >= 3).sum()) < 2000


def test_a_checker_that_never_errs_has_an_interval_from_zero():
    estimate = rates_from_calls(draw_calls(0.0, 0.0, 0.5, num_items=100))
    assert estimate.rates == pytest.approx((0.0, 0.0), abs=1e-6)
    assert estimate.rho0.low == 0
    assert 0 < estimate.rho0.high < 0.05


def test_a_fit_with_swapped_truths_is_swapped_back():
    # 250 items with 0 of 5 accepted and 135 with 2 of 9. EM comes to a kind that is never accepted and one that is accepted
    # in 270 of 1,711.6 answers, .1577: the former is the incorrect one, whichever of the two EM called so.
    calls = np.full((385, 9), np.nan)
    calls[:250, :5], calls[250:] = 0, [1] * 2 + [0] * 7
    estimate = rates_from_calls(calls)
    assert estimate.rates == pytest.approx((0, 0.8423), abs=1e-3)
    assert estimate.prevalence.value == pytest.approx(0.6086, abs=1e-3)
    for rate in (estimate.rho0, estimate.rho1, estimate.prevalence):
        assert rate.low <= rate.value <= rate.high


def test_calls_that_err_together_do_not_fit():
    calls = draw_calls(0.1, 0.1, 0.5, num_calls=6)
    assert rates_from_calls(calls).fit_p_value > 0.001
    hard = np.random.default_rng(2).random(len(calls)) < 0.3
    calls[hard] = draw_calls(0.5, 0.5, 0.5, num_items=int(hard.sum()), num_calls=6, seed=3)  # a coin for each
    assert rates_from_calls(calls).fit_p_value < 1e-6


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        (np.ones((50, 2)), r"No item has 3 answers .* 2\)"),
        ([[1, 0, np.nan]] * 50, "No item has 3 answers"),
        (np.zeros((0, 3)), "No item has 3 answers"),
        (np.ones((500, 3)), "two kinds of items"),
        (draw_calls(0.5, 0.5, 0.5), "two kinds of items"),
        (draw_calls(0.1, 0.2, 0.0), "two kinds of items"),
        (np.full((5, 3), 2), "A call is 1, 0 or NaN; 15 are not, e.g. 2.0"),
        (np.ones(5), r"`calls` has shape \(5,\)"),
    ],
)
def test_calls_that_do_not_determine_the_rates_are_an_error(calls, message):
    with pytest.raises(ValueError, match=message):
        rates_from_calls(calls)
