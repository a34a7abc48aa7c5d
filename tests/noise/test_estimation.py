import numpy as np
import pytest
from scipy.stats import binom

from pvg_hf.noise.estimation import rates_from_trusted


def test_rates_from_trusted_labels_by_hand():
    labels = [1] * 2 + [0] * 8 + [1] * 15 + [0] * 5
    truths = [0] * 10 + [1] * 20
    estimate = rates_from_trusted(labels, truths)
    assert estimate.rates == (0.2, 0.25)
    assert (estimate.rho0.n, estimate.rho1.n) == (10, 20)
    # Wilson with z = 1.96: (2 + 1.9207) / 13.8415 -+ 1.96 * sqrt(2 * 8 / 10 + .9604) / 13.8415
    assert (estimate.rho0.low, estimate.rho0.high) == pytest.approx((0.0567, 0.5098), abs=1e-4)
    assert f"{estimate.rho0:.3f}" == "0.200 [0.057, 0.510] n=10"


def test_intervals_cover_the_true_rates_as_often_as_stated():
    rng, rho0, rho1, num_runs = np.random.default_rng(0), 0.1, 0.3, 400
    truths = np.repeat([0, 1], 100)
    held = 0
    for _ in range(num_runs):
        flips = rng.random(200) < np.where(truths == 1, rho1, rho0)
        estimate = rates_from_trusted(truths ^ flips, truths)
        held += (estimate.rho0.low <= rho0 <= estimate.rho0.high) + (estimate.rho1.low <= rho1 <= estimate.rho1.high)
    # 800 intervals of at least 93 % each (Wilson's coverage at these n swings around 95 %): fewer than the bound come
    # with probability 1e-6.
    assert held >= binom.ppf(1e-6, 2 * num_runs, 0.93)


@pytest.mark.parametrize(
    ("labels", "truths", "message"),
    [
        ([0, 1], [1, 1], "None .*2 .*is incorrect"),
        ([0, 1], [0, 0], "None .*2 .*is correct"),
        ([0, 2], [0, 1], "`labels` .*0 or 1; .*e.g. 2"),
        ([0, 1], [0, 0.5], "`truths` must be 0 or 1"),
        ([0, 1, 1], [0, 1], r"`labels` has shape \(3,\)"),
        ([1, 0, 0, 1], [0, 0, 1, 1], "must be below 1"),
    ],
)
def test_too_few_or_invalid_labels_are_errors(labels, truths, message):
    with pytest.raises(ValueError, match=message):
        rates_from_trusted(labels, truths)
