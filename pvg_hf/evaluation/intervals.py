"""Figures: a value with its n and a 95 % interval. Solutions of one problem are never taken for independent."""

import math

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import norm, t

from pvg_hf.core.figure import ALPHA, EMPTY, Figure, wilson

NUM_UNRELATED = 4  # problems that are added to a pairing, as Agresti and Coull add four trials to a rate

_TINY = 1e-12  # a variance that rounding makes of 0


def rate(successes: int, n: int) -> Figure:
    """
    A rate with its Wilson interval; right for `n` independent trials.

    Raises:
        ValueError: unless `0 <= successes <= n`.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"`successes` is {successes}; it must lie in [0, n], and `n` is {n}.")
    return EMPTY if n == 0 else wilson(successes / n, n, n)


def rate_by_problem(successes: ArrayLike, problem_ids: ArrayLike) -> Figure:
    """
    A rate over several trials per problem, with the Wilson interval of their [`effective_size`], at most n.

    Args:
        successes (`ArrayLike` of shape `(n,)`):
            0 or 1 (or bool); a tie is .5.
        problem_ids (`ArrayLike` of shape `(n,)`):
            The problem of each.
    """
    values = checked(successes, problem_ids)
    if not np.isin(values, (0, 0.5, 1)).all():
        raise ValueError(f"A rate takes 0, 1 and ties of 0.5; got values from {values.min()} to {values.max()}.")
    return rate_of_counts(*sums_by_problem(values, problem_ids))


def rate_of_counts(successes: np.ndarray, trials: np.ndarray) -> Figure:
    """
    As [`rate_by_problem`], from the counts of each problem.

    Args:
        successes (`np.ndarray` of shape `(num_problems,)`), trials (`np.ndarray` of shape `(num_problems,)`):
            One per problem, e.g. pairs won and pairs. Problems without a trial are left out; the sum of the trials is the
            figure's `n`.
    """
    return _share(successes, trials, most=float(trials.sum()))


def share_by_problem(shares: ArrayLike, problem_ids: ArrayLike) -> Figure:
    """
    Mean of values that lie in [0, 1], such as each problem's share of right choices; the Wilson interval of their
    [`effective_size`], which may be more than n, as a share can stand for many trials.

    Args:
        shares (`ArrayLike` of shape `(n,)`):
            In [0, 1].
        problem_ids (`ArrayLike` of shape `(n,)`):
            The problem of each.
    """
    values = checked(shares, problem_ids)
    if ((values < 0) | (values > 1)).any():
        raise ValueError(f"Shares lie in [0, 1]; got values from {values.min()} to {values.max()}.")
    return _share(*sums_by_problem(values, problem_ids), most=math.inf)


def rate_difference(
    successes: ArrayLike, problem_ids: ArrayLike, other_successes: ArrayLike, other_problem_ids: ArrayLike
) -> Figure:
    """
    A rate less another, with an interval from the two Wilson intervals (Newcombe 1998, method 10, on whole problems).

    With `l, u` the distances of either rate from its bounds and r the correlation of the problems' excesses of successes
    over the two rates, the lower bound is `difference - sqrt(l^2 - 2 r l u' + u'^2)`, and the upper one likewise. So a
    problem's difficulty is taken out as far as it shows on both sides. r is that of the problems and `NUM_UNRELATED`
    more: without these, sides that agree throughout would have no width.

    Returns:
        `Figure`: `n` is the number of problems on either side; empty if a side has no value.
    """
    sides = paired_sums(successes, problem_ids, other_successes, other_problem_ids)
    if sides is None:
        return EMPTY
    ours, others = (rate_of_counts(*side) for side in sides)
    excess, other_excess = (sums - figure.value * sizes for (sums, sizes), figure in zip(sides, (ours, others)))
    num_problems, scale = len(excess), math.sqrt((excess @ excess) * (other_excess @ other_excess))
    correlation = excess @ other_excess / scale if scale > _TINY else 0.0
    correlation *= num_problems / (num_problems + NUM_UNRELATED)
    value = ours.value - others.value
    below = _combined(ours.value - ours.low, others.high - others.value, correlation)
    above = _combined(ours.high - ours.value, others.value - others.low, correlation)
    return Figure(value, value - below, value + above, num_problems)


def effective_size(share: float, excess: np.ndarray, *, least: float, most: float) -> float:
    """
    How many independent trials tell as much of a share as problems do whose trials are alike (Korn and Graubard 1998).

    It is `p (1 - p) / v * (z / t)^2`, with v the variance of the share when problems are drawn and t, in place of the
    normal z, the quantile for what so few problems know of v.

    Args:
        share (`float`):
            p, in [0, 1].
        excess (`np.ndarray` of shape `(num_problems,)`):
            What each problem adds to the share beyond its part of p; sums to 0.
        least (`float`), most (`float`):
            Bounds. `least` is the size if the trials of a problem always agree, which is taken where no problem differs:
            then v is not known to be 0, but unknown.
    """
    num_problems = len(excess)
    variance = np.square(excess).sum()
    if num_problems < 2 or variance < _TINY:
        return least
    size = share * (1 - share) / (variance * num_problems / (num_problems - 1))
    few = norm.ppf(1 - ALPHA / 2) / t.ppf(1 - ALPHA / 2, num_problems - 1)
    return min(max(size * few**2, least), max(most, least))


def independent_problems(sizes: np.ndarray) -> float:
    """The number of equally large problems that tell as much as these, if all trials of a problem agree (Kish)."""
    return float(sizes.sum() ** 2 / np.square(sizes).sum())


def checked(values: ArrayLike, problem_ids: ArrayLike) -> np.ndarray:
    """
    The values as floats.

    Raises:
        ValueError: if one is not finite, or lacks its problem.
    """
    numbers = np.asarray(values, dtype=float)
    if len(numbers) != len(np.asarray(problem_ids, dtype=object)):
        raise ValueError(f"{len(numbers)} values came with {len(problem_ids)} problem ids; each value needs its own.")
    if not np.isfinite(numbers).all():
        raise ValueError(
            f"{(~np.isfinite(numbers)).sum()} of {len(numbers)} values are not finite; leave them out first."
        )
    return numbers


def sums_by_problem(
    values: np.ndarray, problem_ids: ArrayLike, problems: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Sum and number of values per problem, in the order of `problems` (by default, of first appearance)."""
    ids = np.asarray(problem_ids, dtype=object)
    codes, found = pd.factorize(ids)
    if problems is not None:
        codes, found = pd.Index(problems).get_indexer(ids), problems
    return np.bincount(codes, values, len(found)), np.bincount(codes, minlength=len(found)).astype(float)


def paired_sums(
    values: ArrayLike, problem_ids: ArrayLike, other_values: ArrayLike, other_problem_ids: ArrayLike
) -> list[tuple[np.ndarray, np.ndarray]] | None:
    """Sum and number of values per problem on both sides, over the problems of either; `None` if a side has no value."""
    sides = [
        (checked(values, problem_ids), problem_ids),
        (checked(other_values, other_problem_ids), other_problem_ids),
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


def _combined(distance: float, other_distance: float, correlation: float) -> float:
    return math.sqrt(max(0.0, distance**2 - 2 * correlation * distance * other_distance + other_distance**2))
