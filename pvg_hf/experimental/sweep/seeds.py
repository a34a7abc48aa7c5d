"""Means over seeds."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import sem, t

from pvg_hf.core.figure import ALPHA, EMPTY, Figure


def mean_over_seeds(values: ArrayLike) -> Figure:
    """
    Return the mean over seeds with its 95 % interval by Student's t.

    Args:
        values: shape `(num_seeds,)`. One value per seed; NaN if a seed has none.
    Returns: `n` is the number of values. There is no interval for a single value, or for equal ones, which do not show
        that there is no spread.
    """
    known = np.asarray(values, dtype=float)
    known = known[~np.isnan(known)]
    if not len(known):
        return EMPTY
    if np.ptp(known) == 0:
        return Figure(float(known[0]), None, None, len(known))
    low, high = t.interval(1 - ALPHA, len(known) - 1, loc=known.mean(), scale=sem(known))
    return Figure(float(known.mean()), float(low), float(high), len(known))


def show_figure(figure: Figure, *, with_n: bool = True) -> str:
    """Format a figure as a table cell: value, 95 % interval and, with `with_n`, n."""
    size = f" (n={figure.n:,})" if with_n else ""
    if figure.value is None:
        return f"{'none' if figure.low is None else f'> {figure.low:g}'}{size}"
    interval = "" if figure.low is None else f" [{figure.low:.3f}, {figure.high:.3f}]"
    return f"{figure.value:.3f}{interval}{size}"
