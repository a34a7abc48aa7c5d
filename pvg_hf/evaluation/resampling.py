"""Bootstrap intervals of means and other statistics; problems, not solutions, are resampled."""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pvg_hf.core.figure import ALPHA, EMPTY, Figure
from pvg_hf.evaluation.intervals import paired_sums, read_values, sums_by_problem

_BLOCK_SIZE = 2**20  # number of weights held in memory at a time

Statistic = Callable[[np.ndarray], np.ndarray]


def mean_by_problem(values: ArrayLike, problem_ids: ArrayLike, *, seed: int, num_resamples: int) -> Figure:
    """
    Return the mean of any numbers; for shares see [`~pvg_hf.evaluation.intervals.share_by_problem`].

    Args:
        values (`ArrayLike` of shape `(n,)`), problem_ids (`ArrayLike` of shape `(n,)`):
            Numbers, and the problem of each.
        seed (`int`), num_resamples (`int`):
            Settings of the bootstrap.

    Returns:
        `Figure`: `n` is the number of values. There is no interval if there is only one problem or if all problems
        agree: not having observed a difference does not mean that there is none.
    """
    numbers = read_values(values, problem_ids)
    if not len(numbers):
        return EMPTY
    sums, sizes = sums_by_problem(numbers, problem_ids)
    return _bootstrap(
        lambda counts: (counts @ sums) / (counts @ sizes),
        n=len(numbers),
        num_problems=len(sums),
        seed=seed,
        num_resamples=num_resamples,
    )


def difference(
    values: ArrayLike,
    problem_ids: ArrayLike,
    other_values: ArrayLike,
    other_problem_ids: ArrayLike,
    *,
    seed: int,
    num_resamples: int,
) -> Figure:
    """
    Return the mean of `values` minus the mean of `other_values`, which may be any numbers.

    For rates see [`~pvg_hf.evaluation.intervals.rate_difference`]. A problem that occurs on both sides is resampled
    jointly, which removes its difficulty from the difference. If `high < 0`, the first mean is clearly lower.

    Returns:
        `Figure`: `n` is the number of problems on at least one side. It is empty if a side has no value, and has no
        interval if a side has a single problem, or as in [`mean_by_problem`].
    """
    sides = paired_sums(values, problem_ids, other_values, other_problem_ids)
    if sides is None:
        return EMPTY
    (sums, sizes), (other_sums, other_sizes) = sides
    figure = _bootstrap(
        lambda counts: divide(counts @ sums, counts @ sizes) - divide(counts @ other_sums, counts @ other_sizes),
        n=len(sums),
        num_problems=len(sums),
        seed=seed,
        num_resamples=num_resamples,
    )
    has_spread = min((sizes > 0).sum(), (other_sizes > 0).sum()) > 1
    return figure if has_spread else Figure(figure.value, None, None, figure.n)


def bootstrap_statistic(statistic: Statistic, problem_ids: ArrayLike, *, seed: int, num_resamples: int) -> Figure:
    """
    Return any statistic that is a function of weights on the rows, with its interval.

    Args:
        statistic (`Callable`):
            Maps weights of shape `(num_resamples, n)`, the integer counts of each row, to values of shape
            `(num_resamples,)`; NaN if undefined.
        problem_ids (`ArrayLike` of shape `(n,)`):
            The problem of each row.
        seed (`int`), num_resamples (`int`):
            Settings of the bootstrap. Undefined resamples are ignored; if most are undefined, there is no interval.
    """
    codes, problems = pd.factorize(np.asarray(problem_ids, dtype=object))
    if not len(codes):
        return EMPTY
    return _bootstrap(
        lambda counts: statistic(counts[:, codes]),
        n=len(codes),
        num_problems=len(problems),
        seed=seed,
        num_resamples=num_resamples,
    )


def divide(tops: np.ndarray, bottoms: np.ndarray) -> np.ndarray:
    """Divide elementwise; NaN for a divisor of 0."""
    return np.divide(tops, bottoms, out=np.full(np.shape(bottoms), np.nan), where=np.asarray(bottoms) > 0)


def _bootstrap(statistic: Statistic, *, n: int, num_problems: int, seed: int, num_resamples: int) -> Figure:
    """Bootstrap a statistic that maps counts, `(num_resamples, num_problems)`, to values, `(num_resamples,)`."""
    value = float(statistic(np.ones((1, num_problems)))[0])
    if np.isnan(value):
        return Figure(None, None, None, n)
    blocks = _resample_counts(num_problems, max(n, num_problems), np.random.default_rng(seed), num_resamples)
    estimates = np.concatenate([statistic(counts) for counts in blocks])
    defined = estimates[~np.isnan(estimates)]
    # Resamples that all agree would give an interval of width 0, which claims too much; so there is none.
    if 2 * len(defined) < len(estimates) or np.allclose(defined, value, rtol=1e-9, atol=1e-12):
        return Figure(value, None, None, n)
    low, high = np.quantile(defined, [ALPHA / 2, 1 - ALPHA / 2])
    return Figure(value, float(low), float(high), n)


def _resample_counts(
    num_problems: int, num_rows: int, rng: np.random.Generator, num_resamples: int
) -> Iterator[np.ndarray]:
    """Yield blocks of shape (resamples of the block, num_problems): how often each resample draws each problem."""
    block = max(1, _BLOCK_SIZE // num_rows)
    for start in range(0, num_resamples, block):
        size = min(block, num_resamples - start)
        # Offsets make the indices of all resamples distinct, so that one `bincount` counts them all.
        drawn = rng.integers(num_problems, size=(size, num_problems)) + num_problems * np.arange(size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * num_problems)
        yield counts.reshape(size, num_problems).astype(float)
