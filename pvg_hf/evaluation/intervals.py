"""Figures with 95 % intervals, and folds; both are over problems, whose solutions are not independent."""

import math
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import norm, t

from pvg_hf.core.figure import ALPHA, EMPTY, Figure, wilson
from pvg_hf.core.seeding import derive_seed

NUM_UNRELATED = 4  # unrelated problems added to a pairing, like the four trials that Agresti and Coull add to a rate

_TINY = 1e-12  # a variance below this is 0 up to rounding


def rate_by_problem(successes: ArrayLike, problem_ids: ArrayLike) -> Figure:
    """
    Return a rate over several trials per problem, with the Wilson interval of their [`effective_size`] (at most n).

    `successes` `(n,)` are 0 or 1 (or bool), and 0.5 for a tie.
    """
    values = read_values(successes, problem_ids)
    if not np.isin(values, (0, 0.5, 1)).all():
        raise ValueError(f"A rate takes 0, 1 and ties of 0.5; got values from {values.min()} to {values.max()}.")
    return rate_of_counts(*sums_by_problem(values, problem_ids))


def rate_of_counts(successes: np.ndarray, trials: np.ndarray) -> Figure:
    """Return [`rate_by_problem`] from the successes and trials of each problem; `n` is the sum of the trials."""
    return _share(successes, trials, most=float(trials.sum()))


def share_by_problem(shares: ArrayLike, problem_ids: ArrayLike) -> Figure:
    """
    Return the mean of values in [0, 1], such as each problem's share of right choices.

    The interval is the Wilson interval of their [`effective_size`]. This may exceed n, since a share can summarise
    many trials.
    """
    values = read_values(shares, problem_ids)
    if ((values < 0) | (values > 1)).any():
        raise ValueError(f"Shares lie in [0, 1]; got values from {values.min()} to {values.max()}.")
    return _share(*sums_by_problem(values, problem_ids), most=math.inf)


def rate_difference(
    successes: ArrayLike, problem_ids: ArrayLike, other_successes: ArrayLike, other_problem_ids: ArrayLike
) -> Figure:
    """
    Return the difference of two rates, with an interval from their Wilson intervals (Newcombe 1998, method 10).

    Let `l, u` be the distances of the first rate from its bounds, `l', u'` those of the second, and r the correlation
    between the problems' excess successes over the two rates. The lower bound is `difference - sqrt(l^2 - 2 r l u' +
    u'^2)`; the upper bound is analogous. This removes a problem's difficulty as far as it affects both sides. r is
    computed as if there were `NUM_UNRELATED` more, unrelated problems; otherwise sides that agree on every problem
    would have an interval of width 0. `n` is the number of problems on at least one side; empty if a side has no
    value.
    """
    sides = paired_sums(successes, problem_ids, other_successes, other_problem_ids)
    if sides is None:
        return EMPTY
    ours, others = (rate_of_counts(*side) for side in sides)
    excess, other_excess = (sums - figure.known * sizes for (sums, sizes), figure in zip(sides, (ours, others)))
    num_problems, scale = len(excess), math.sqrt((excess @ excess) * (other_excess @ other_excess))
    correlation = float(excess @ other_excess) / scale if scale > _TINY else 0.0
    correlation *= num_problems / (num_problems + NUM_UNRELATED)
    value, (low, high), (other_low, other_high) = ours.known - others.known, ours.bounds, others.bounds
    below = _combine_distances(ours.known - low, other_high - others.known, correlation)
    above = _combine_distances(high - ours.known, others.known - other_low, correlation)
    return Figure(value, value - below, value + above, num_problems)


def difference_of_ends(ours: Figure, theirs: Figure) -> Figure:
    """
    Return the difference of two figures whose resamples are not known together, with the ends of both intervals.

    Its interval is too wide: it excludes 0 exactly if the two do not overlap. `n` is the smaller one.
    """
    if ours.value is None or theirs.value is None:
        return EMPTY
    value, n = ours.value - theirs.value, min(ours.n, theirs.n)
    if ours.low is None or theirs.low is None:
        return Figure(value, None, None, n)
    (low, high), (their_low, their_high) = ours.bounds, theirs.bounds
    return Figure(value, low - their_high, high - their_low, n)


def effective_size(share: float, excess: np.ndarray, *, least: float, most: float) -> float:
    """
    Return the number of independent trials with the same information about a share p as these problems (Korn &
    Graubard 1998).

    It is `p (1 - p) / v * (z / t)^2`, where v is the variance of the share under resampling of problems. The quantile
    t replaces the normal z, because v is estimated from few problems. `excess` `(num_problems,)` is the contribution
    of each problem to the share beyond its part of p; it sums to 0. The size is kept within `least` and `most`.
    `least` is the size if the trials of a problem always agree; it is also returned if no problem differs, because v
    is then unknown rather than 0.
    """
    num_problems = len(excess)
    variance = np.square(excess).sum()
    if num_problems < 2 or variance < _TINY:
        return least
    # Binomial variance p (1 - p) / size, solved for the size.
    size = share * (1 - share) / (variance * num_problems / (num_problems - 1))
    # (z / t)**2 < 1 accounts for estimating the variance from few problems.
    few = norm.ppf(1 - ALPHA / 2) / t.ppf(1 - ALPHA / 2, num_problems - 1)
    return min(max(size * few**2, least), max(most, least))


def independent_problems(sizes: np.ndarray) -> float:
    """Return Kish's number of equally large problems with the same information, if a problem's trials agree."""
    return float(sizes.sum() ** 2 / np.square(sizes).sum())


def read_values(values: ArrayLike, problem_ids: ArrayLike) -> np.ndarray:
    """Convert the values to floats; a `ValueError` if one is not finite or has no problem."""
    numbers = np.asarray(values, dtype=float)
    num_ids = len(np.asarray(problem_ids, dtype=object))
    if len(numbers) != num_ids:
        raise ValueError(f"{len(numbers)} values came with {num_ids} problem ids; each value needs its own.")
    if not np.isfinite(numbers).all():
        raise ValueError(
            f"{(~np.isfinite(numbers)).sum()} of {len(numbers)} values are not finite; remove them first."
        )
    return numbers


def with_problems(rows: pd.DataFrame, column: str) -> tuple[pd.Series, pd.Series]:
    """Return a column and the problem of each row, as the figures of this module take them."""
    return rows[column], rows["problem_id"]


def sums_by_problem(
    values: np.ndarray, problem_ids: ArrayLike, problems: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return sum and number of values per problem, in the order of `problems` (by default, of first appearance)."""
    ids = np.asarray(problem_ids, dtype=object)
    codes, found = pd.factorize(ids)
    if problems is not None:
        codes, found = pd.Index(problems).get_indexer(ids), problems
    return np.bincount(codes, values, len(found)), np.bincount(codes, minlength=len(found)).astype(float)


def paired_sums(
    values: ArrayLike, problem_ids: ArrayLike, other_values: ArrayLike, other_problem_ids: ArrayLike
) -> list[tuple[np.ndarray, np.ndarray]] | None:
    """Return sum and number of values per problem for both sides, over all problems; `None` if a side has no value."""
    sides = [
        (read_values(values, problem_ids), problem_ids),
        (read_values(other_values, other_problem_ids), other_problem_ids),
    ]
    if not all(len(numbers) for numbers, _ in sides):
        return None
    problems = pd.unique(np.concatenate([np.asarray(ids, dtype=object) for _, ids in sides]))
    return [sums_by_problem(numbers, ids, problems) for numbers, ids in sides]


def _share(sums: np.ndarray, sizes: np.ndarray, most: float) -> Figure:
    counted = sizes > 0
    sums, sizes = sums[counted], sizes[counted]
    if not len(sizes):
        return EMPTY
    n = sizes.sum()
    share = sums.sum() / n
    size = effective_size(share, (sums - share * sizes) / n, least=independent_problems(sizes), most=most)
    return wilson(share, size, int(n))


def _combine_distances(distance: float, other_distance: float, correlation: float) -> float:
    return math.sqrt(max(0.0, distance**2 - 2 * correlation * distance * other_distance + other_distance**2))


_BLOCK_SIZE = 2**20  # number of weights held in memory at a time

Statistic = Callable[[np.ndarray], np.ndarray]


def mean_by_problem(values: ArrayLike, problem_ids: ArrayLike, *, seed: int, num_resamples: int) -> Figure:
    """
    Return the mean of any numbers; for shares see [`share_by_problem`].

    `n` is the number of values. There is no interval if there is only one problem or if all problems agree: not having
    observed a difference does not mean that there is none.
    """
    numbers = read_values(values, problem_ids)
    if not len(numbers):
        return EMPTY
    sums, sizes = sums_by_problem(numbers, problem_ids)
    return _bootstrap(lambda counts: (counts @ sums) / (counts @ sizes), len(numbers), len(sums), seed, num_resamples)


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
    Return the mean of `values` minus the mean of `other_values`, which may be any numbers; for rates see
    [`rate_difference`].

    A problem that occurs on both sides is resampled jointly, which removes its difficulty from the difference. If
    `high < 0`, the first mean is clearly lower. `n` is the number of problems on at least one side. The figure is
    empty if a side has no value, and has no interval if a side has a single problem, or as in [`mean_by_problem`].
    """
    sides = paired_sums(values, problem_ids, other_values, other_problem_ids)
    if sides is None:
        return EMPTY
    (sums, sizes), (other_sums, other_sizes) = sides

    def gap(counts: np.ndarray) -> np.ndarray:
        return divide(counts @ sums, counts @ sizes) - divide(counts @ other_sums, counts @ other_sizes)

    figure = _bootstrap(gap, len(sums), len(sums), seed, num_resamples)
    has_spread = min((sizes > 0).sum(), (other_sizes > 0).sum()) > 1
    return figure if has_spread else Figure(figure.value, None, None, figure.n)


def bootstrap_statistic(statistic: Statistic, problem_ids: ArrayLike, *, seed: int, num_resamples: int) -> Figure:
    """
    Return any statistic that is a function of weights on the rows, with its interval.

    `statistic` maps weights of shape `(num_resamples, n)`, the integer counts of each row, to values of shape
    `(num_resamples,)`; NaN if undefined. Undefined resamples are ignored; if most are undefined, there is no interval.
    """
    codes, problems = pd.factorize(np.asarray(problem_ids, dtype=object))
    if not len(codes):
        return EMPTY
    return _bootstrap(lambda counts: statistic(counts[:, codes]), len(codes), len(problems), seed, num_resamples)


def divide(tops: np.ndarray, bottoms: np.ndarray) -> np.ndarray:
    """Divide elementwise; NaN for a divisor of 0."""
    return np.divide(tops, bottoms, out=np.full(np.shape(bottoms), np.nan), where=np.asarray(bottoms) > 0)


def _bootstrap(statistic: Statistic, n: int, num_problems: int, seed: int, num_resamples: int) -> Figure:
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


def first_half(problem_ids: pd.Series, *, seed: int) -> pd.Series:
    """Whether each row's problem is in the first of two halves, which a seeded hash of the problem ids determines."""
    ordered = sorted(problem_ids.unique(), key=lambda problem_id: derive_seed(seed, problem_id))
    return problem_ids.isin(ordered[::2])
