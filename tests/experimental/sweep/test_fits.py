"""Fits over noise levels, and where a measure breaks down, against values worked by hand."""

import numpy as np
import pandas as pd
import pytest

from pvg_hf.experimental.sweep.fits import Breakdown, crossing, find_breakdown, fit_levels


def test_a_line_is_fitted_to_one_seed():
    # About their means the levels are -1, 0, 1 and the values -2/3, 1/3, 1/3: slope (2/3 + 1/3) / 2 = 1/2. The
    # residuals -1/6, 1/3, -1/6 have the sum of squares 1/6, of 2/3. The slope's error is sqrt(1/6 / 1 / 2), and
    # t(.975, 1) = 12.7062.
    fit = fit_levels([0, 1, 2], [0, 1, 1], [7, 7, 7], degree=1)
    (slope,) = fit.terms
    assert (slope.value, fit.r_squared, fit.constant) == pytest.approx((1 / 2, 3 / 4, 1 / 6))
    assert (slope.low, slope.high) == pytest.approx(
        (0.5 - 12.7062 / np.sqrt(12), 0.5 + 12.7062 / np.sqrt(12)), abs=1e-4
    )
    assert (fit.n, slope.n) == (3, 3)
    assert fit(np.array([2.0])) == pytest.approx([1 / 6 + 1])


def test_a_constant_difference_between_seeds_adds_no_error():
    # The same seed again, ten higher: residuals of 1/3 in all with 6 - 3 degrees of freedom, so an error of
    # sqrt(1/3 / 3 / 4) = 1/6; t(.975, 3) = 3.18245.
    fit = fit_levels([0, 1, 2, 0, 1, 2], [0, 1, 1, 10, 11, 11], [0, 0, 0, 1, 1, 1], degree=1)
    (slope,) = fit.terms
    assert (slope.value, fit.r_squared, fit.constant) == pytest.approx((1 / 2, 3 / 4, 5 + 1 / 6))
    assert (slope.low, slope.high) == pytest.approx((0.5 - 3.18245 / 6, 0.5 + 3.18245 / 6), abs=1e-4)


def test_a_parabola_is_fitted_exactly():
    levels = [0, 0.1, 0.2, 0.4] * 2
    values = [seed + 3 * level - 5 * level**2 for seed, level in zip([1] * 4 + [2] * 4, levels)]
    fit = fit_levels(levels, values, [1] * 4 + [2] * 4, degree=2)
    assert [term.value for term in fit.terms] == pytest.approx([3, -5])
    assert (fit.constant, fit.r_squared) == pytest.approx((1.5, 1))


@pytest.mark.parametrize(("levels", "degree"), [([0.2, 0.2, 0.2], 1), ([0, 0.2, 0.2], 2)])
def test_too_few_levels_give_no_fit(levels, degree):
    assert fit_levels(levels, [1, 2, 3], [0, 0, 0], degree) is None


def test_without_a_degree_of_freedom_there_is_no_interval():
    (slope,) = fit_levels([0, 0.5], [1, 2], [0, 0], degree=1).terms
    assert slope.value == pytest.approx(2)
    assert (slope.low, slope.high) == (None, None)


def test_values_that_never_change_have_no_share_explained():
    fit = fit_levels([0, 1, 2], [4, 4, 4], [0, 0, 0], degree=1)
    assert fit.r_squared is None
    assert fit.terms[0].value == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("bound", "level"),
    [(0.7, 0.15), (0.8, 0.1), (0.5, None), (0.95, 0.0)],
    ids=["between two levels", "just below one", "never", "from the start"],
)
def test_the_level_at_which_a_bound_is_crossed_by_hand(bound, level):
    assert crossing([0, 0.1, 0.2], [0.9, 0.8, 0.6], bound) == (None if level is None else pytest.approx(level))


def test_breakdown_is_halfway_to_the_floor():
    # The bounds are .7 and .65. Seed 0 gets to .7 midway between .2 and .4, seed 1 never; the mean .85, .775, .65
    # falls to .675 at .2 + .2 (.1 / .125).
    by_seed = pd.DataFrame({0: [0.9, 0.8, 0.6], 1: [0.8, 0.75, 0.7]}, index=[0, 0.2, 0.4])
    found = find_breakdown(by_seed, pd.Series({0: 0.9, 1: 0.8}), pd.Series({0: 0.5, 1: 0.5}))
    assert found == Breakdown(pytest.approx(0.36), pytest.approx(0.3), pytest.approx(0.3), num_seeds=2, num_broken=1)


def test_a_measure_at_its_floor_has_no_breakdown():
    by_seed = pd.DataFrame({0: [0.9, 0.4], 1: [0.5, 0.4]}, index=[0, 0.4])
    clean, floors = pd.Series({0: 0.9, 1: 0.5}), pd.Series({0: 0.5, 1: 0.5})
    assert find_breakdown(by_seed, clean, floors).num_seeds == 1
    assert find_breakdown(by_seed[[1]], clean, floors) is None
