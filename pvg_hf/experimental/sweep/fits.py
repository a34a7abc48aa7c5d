"""Dependence of a measure on the noise level: linear and quadratic fits, and the level at which it breaks down."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import t

from pvg_hf.core.figure import ALPHA, Figure

DEGREES = {"linear": 1, "quadratic": 2}
_TINY = 1e-18  # a smaller sum of squares is 0 up to rounding


@dataclass(frozen=True)
class Fit:
    """
    Least-squares fit `value = a_seed + sum_p terms[p] level^p`.

    Each seed has its own constant `a_seed`, so that differences between seeds that are equal at all levels count
    neither as explained variance nor as error.

    Args:
        terms: Coefficients of the powers 1, 2, ... of the level, with 95 % intervals by Student's t if a degree of
            freedom is left.
        constant: Mean of the seeds' constants.
        r_squared: Explained share of the variance within seeds; `None` if there is no such variance.
    """

    terms: tuple[Figure, ...]
    constant: float
    r_squared: float | None
    n: int

    def __call__(self, levels: np.ndarray) -> np.ndarray:
        """Evaluate the fitted mean over the seeds."""
        return self.constant + sum(term.value * levels**power for power, term in enumerate(self.terms, start=1))


def fit_levels(levels: Sequence[float], values: Sequence[float], seeds: Sequence[int], degree: int) -> Fit | None:
    """
    Fit a polynomial in the level by least squares, with one constant per seed.

    Args:
        levels, values, seeds: One of each per cell.
    Returns: [`Fit`], or `None` if the levels within seeds do not determine the coefficients.
    """
    of_seed = pd.get_dummies(pd.Series(list(seeds)), dtype=float).to_numpy()
    powers = np.power.outer(np.asarray(levels, dtype=float), np.arange(1, degree + 1))
    design = np.hstack([of_seed, powers])  # (num_cells, num_seeds + degree)
    if np.linalg.matrix_rank(design) < design.shape[1]:
        return None
    target = np.asarray(values, dtype=float)
    params, *_ = np.linalg.lstsq(design, target)
    errors = target - design @ params
    # Deviation from the seed's mean: R² is relative to the variance within seeds.
    within = target - of_seed @ (of_seed.T @ target / of_seed.sum(axis=0))
    variance = float(within @ within)
    first, left = of_seed.shape[1], len(target) - design.shape[1]  # `left` degrees of freedom
    halves = [None] * design.shape[1]
    if left:
        deviations = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * (errors @ errors) / left)
        halves = t.ppf(1 - ALPHA / 2, left) * deviations
    terms = tuple(_term(float(value), half, len(target)) for value, half in list(zip(params, halves))[first:])
    r_squared = 1 - float(errors @ errors) / variance if variance > _TINY else None
    return Fit(terms, float(params[:first].mean()), r_squared, len(target))


def _term(value: float, half: float | None, n: int) -> Figure:
    return Figure(value, None, None, n) if half is None else Figure(value, float(value - half), float(value + half), n)


def crossing(levels: Sequence[float], values: Sequence[float], bound: float) -> float | None:
    """
    Lowest level at which linearly interpolated values fall below `bound`; `None` if they never do.

    Args:
        levels: Levels in ascending order.
    """
    for index, (level, value) in enumerate(zip(levels, values, strict=True)):
        if value < bound:
            if index == 0:
                return float(level)
            before, higher = levels[index - 1], values[index - 1]
            return float(before + (level - before) * (higher - bound) / (higher - value))
    return None


@dataclass(frozen=True)
class Breakdown:
    """
    Noise level at which a measure is halfway between its value without noise and its floor, the value at chance.

    Args:
        level: Breakdown level of the mean over the seeds; `None` if it does not break down within the levels.
        lowest, highest: Lowest and highest breakdown level among the seeds that break down.
        num_seeds, num_broken: Number of all seeds, and of those that break down.
    """

    level: float | None
    lowest: float | None
    highest: float | None
    num_seeds: int
    num_broken: int


def find_breakdown(by_seed: pd.DataFrame, clean: pd.Series, floors: pd.Series) -> Breakdown | None:
    """
    Find the breakdown level of a measure for which higher is better; negate all values of a loss.

    Args:
        by_seed: Values, with a row per level (ascending) and a column per seed.
        clean, floors: Value on clean labels, and floor, of each seed.
    Returns: [`Breakdown`], or `None` if no seed is above its floor on clean labels: there is nothing to lose.
    """
    by_seed = by_seed.loc[:, (clean > floors).reindex(by_seed.columns)].dropna()
    if by_seed.empty:
        return None
    bounds = ((clean + floors) / 2)[by_seed.columns]
    levels = by_seed.index.tolist()
    found = [crossing(levels, by_seed[seed].tolist(), bounds[seed]) for seed in by_seed]
    broken = [level for level in found if level is not None]
    mean = crossing(levels, by_seed.mean(axis=1).tolist(), bounds.mean())
    return Breakdown(mean, min(broken, default=None), max(broken, default=None), len(found), len(broken))
