"""Figures: a value with its n and a 95 % interval. Solutions of one problem are never taken for independent."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from statsmodels.stats.proportion import proportion_confint

ALPHA = 0.05
_BLOCK_SIZE = 2**20  # weights held at a time while resampling


@dataclass(frozen=True)
class Figure:
    """
    A number that can be judged.

    Args:
        value (`float`, *optional*):
            `None` where nothing was there to measure.
        low (`float`, *optional*), high (`float`, *optional*):
            The 95 % interval; `None` where there is no value, or too little data for an interval.
        n (`int`):
            What the value is a mean over: solutions, pairs or problems.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Figure":
        return cls(**values)

    def __str__(self) -> str:
        if self.value is None:
            return f"none n={self.n}"
        interval = "" if self.low is None else f" [{self.low:.2f}, {self.high:.2f}]"
        return f"{self.value:.2f}{interval} n={self.n}"


EMPTY = Figure(None, None, None, 0)


def rate(successes: int, n: int) -> Figure:
    """
    A rate with its Wilson interval; right for `n` independent trials.

    Raises:
        ValueError: unless `0 <= successes <= n`.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"`successes` is {successes}; it must lie in [0, n], and `n` is {n}.")
    return EMPTY if n == 0 else _wilson(successes / n, n, n)


def rate_by_problem(successes: ArrayLike, problem_ids: ArrayLike) -> Figure:
    """
    A rate over several solutions per problem, with the Wilson interval of the effective sample size.

    Solutions of one problem are alike, so that n of them tell less than n independent ones. The effective size is
    `p (1 - p) / v` with v the variance of the rate when problems are drawn, `v = sum_j (sum_i (y_ij - p))^2 / n^2`; it is
    n for one solution per problem, and the number of problems when the solutions of a problem always agree.

    Args:
        successes (`ArrayLike` of shape `(n,)`):
            0 or 1 (or bool).
        problem_ids (`ArrayLike` of shape `(n,)`):
            The problem of each.
    """
    values = _checked(successes, problem_ids)
    if not len(values):
        return EMPTY
    if not np.isin(values, (0, 1)).all():
        raise ValueError(f"A rate takes 0 and 1; got values from {values.min()} to {values.max()}.")
    share, (sums, sizes) = values.mean(), _per_problem(values, problem_ids)
    variance = np.square(sums - share * sizes).sum() / len(values) ** 2
    effective_n = share * (1 - share) / variance if variance > 0 else len(sums)
    return _wilson(share, min(effective_n, len(values)), len(values))


def mean_by_problem(values: ArrayLike, problem_ids: ArrayLike, *, seed: int, num_resamples: int) -> Figure:
    """
    Mean over all values; the interval comes from drawing problems, not single values, with replacement.

    Args:
        values (`ArrayLike` of shape `(n,)`), problem_ids (`ArrayLike` of shape `(n,)`):
            Numbers, and the problem of each.
        seed (`int`), num_resamples (`int`):
            Of the bootstrap.
    """
    numbers = _checked(values, problem_ids)
    return ratio_by_problem(*_per_problem(numbers, problem_ids), seed=seed, num_resamples=num_resamples)


def ratio_by_problem(numerators: np.ndarray, denominators: np.ndarray, *, seed: int, num_resamples: int) -> Figure:
    """
    Sum of `numerators` over sum of `denominators`, with a bootstrap over problems.

    Args:
        numerators (`np.ndarray` of shape `(num_problems,)`), denominators (`np.ndarray` of shape `(num_problems,)`):
            One per problem, e.g. pairs won and pairs. Problems with denominator 0 are left out; the sum of the others'
            is the figure's `n`.
        seed (`int`), num_resamples (`int`):
            Of the bootstrap.
    """
    counted = denominators > 0
    tops, bottoms = numerators[counted], denominators[counted]
    if not len(bottoms):
        return EMPTY
    blocks = _resample_counts(len(bottoms), len(bottoms), np.random.default_rng(seed), num_resamples)
    estimates = np.concatenate([(counts @ tops) / (counts @ bottoms) for counts in blocks])
    return _percentile(tops.sum() / bottoms.sum(), estimates, int(bottoms.sum()), len(bottoms))


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
    Mean of `values` less mean of `other_values`, with a bootstrap over problems.

    A problem that stands on both sides is drawn for both at once, which removes its difficulty from the difference; the
    problems of one side only are drawn on their own. `high < 0` says that the first mean is clearly the lower one.

    Returns:
        `Figure`: `n` is the number of problems on either side; empty if a side has no value.
    """
    sides = [
        (_checked(values, problem_ids), problem_ids),
        (_checked(other_values, other_problem_ids), other_problem_ids),
    ]
    if not all(len(numbers) for numbers, _ in sides):
        return EMPTY
    problems = pd.unique(np.concatenate([np.asarray(ids, dtype=object) for _, ids in sides]))
    (sums, sizes), (other_sums, other_sizes) = (_per_problem(numbers, ids, problems) for numbers, ids in sides)
    strata = np.where(sizes == 0, 0, np.where(other_sizes == 0, 1, 2))
    rng = np.random.default_rng(seed)
    estimates = np.concatenate(
        [
            (counts @ sums) / (counts @ sizes) - (counts @ other_sums) / (counts @ other_sizes)
            for counts in _stratified_counts(strata, rng, num_resamples)
        ]
    )
    value = sums.sum() / sizes.sum() - other_sums.sum() / other_sizes.sum()
    return _percentile(value, estimates, len(problems), len(problems))


def bootstrap_statistic(
    statistic: Callable[[np.ndarray], np.ndarray],
    problem_ids: ArrayLike,
    *,
    seed: int,
    num_resamples: int,
) -> Figure:
    """
    Any statistic that can be written with weights on the rows, with a bootstrap over problems.

    Args:
        statistic (`Callable`):
            Maps weights of shape `(num_resamples, n)`, whole numbers that say how often each row counts, to values of
            shape `(num_resamples,)`; NaN where it is not defined.
        problem_ids (`ArrayLike` of shape `(n,)`):
            The problem of each row.
        seed (`int`), num_resamples (`int`):
            Of the bootstrap. Resamples without a value are left out; if most have none, so has the interval.
    """
    codes, problems = pd.factorize(np.asarray(problem_ids, dtype=object))
    if not len(codes):
        return EMPTY
    value = statistic(np.ones((1, len(codes))))[0]
    if np.isnan(value):
        return Figure(None, None, None, len(codes))
    blocks = _resample_counts(len(problems), len(codes), np.random.default_rng(seed), num_resamples)
    estimates = np.concatenate([statistic(counts[:, codes]) for counts in blocks])
    return _percentile(value, estimates, len(codes), len(problems))


def _wilson(share: float, effective_n: float, n: int) -> Figure:
    low, high = proportion_confint(share * effective_n, effective_n, alpha=ALPHA, method="wilson")
    # Rounding may put a bound of 0 or 1 a hair on the wrong side of the rate.
    return Figure(float(share), float(min(low, share)), float(max(high, share)), n)


def _percentile(value: float, estimates: np.ndarray, n: int, num_problems: int) -> Figure:
    defined = estimates[~np.isnan(estimates)]
    if num_problems < 2 or 2 * len(defined) < len(estimates):
        return Figure(float(value), None, None, n)
    low, high = np.quantile(defined, [ALPHA / 2, 1 - ALPHA / 2])
    return Figure(float(value), float(low), float(high), n)


def _checked(values: ArrayLike, problem_ids: ArrayLike) -> np.ndarray:
    numbers = np.asarray(values, dtype=float)
    if len(numbers) != len(np.asarray(problem_ids, dtype=object)):
        raise ValueError(f"{len(numbers)} values came with {len(problem_ids)} problem ids; each value needs its own.")
    if not np.isfinite(numbers).all():
        raise ValueError(
            f"{(~np.isfinite(numbers)).sum()} of {len(numbers)} values are not finite; leave them out first."
        )
    return numbers


def _per_problem(
    values: np.ndarray, problem_ids: ArrayLike, problems: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Sum and number of values per problem, in the order of `problems` (by default, of first appearance)."""
    ids = np.asarray(problem_ids, dtype=object)
    codes, found = pd.factorize(ids)
    if problems is not None:
        codes, found = pd.Index(problems).get_indexer(ids), problems
    return np.bincount(codes, values, len(found)), np.bincount(codes, minlength=len(found)).astype(float)


def _resample_counts(
    num_problems: int, num_rows: int, rng: np.random.Generator, num_resamples: int
) -> Iterator[np.ndarray]:
    """Yields blocks (num_resamples of the block, num_problems): how often each resample draws each problem."""
    block = max(1, _BLOCK_SIZE // max(num_rows, num_problems))
    for start in range(0, num_resamples, block):
        size = min(block, num_resamples - start)
        drawn = rng.integers(num_problems, size=(size, num_problems)) + num_problems * np.arange(size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * num_problems)
        yield counts.reshape(size, num_problems).astype(float)


def _stratified_counts(strata: np.ndarray, rng: np.random.Generator, num_resamples: int) -> Iterator[np.ndarray]:
    """As `_resample_counts`, but each stratum keeps its number of problems."""
    members = [np.flatnonzero(strata == stratum) for stratum in np.unique(strata)]
    streams = [
        _resample_counts(len(group), len(strata), stream, num_resamples)
        for group, stream in zip(members, rng.spawn(len(members)))
    ]
    for blocks in zip(*streams):
        counts = np.empty((len(blocks[0]), len(strata)))
        for group, block in zip(members, blocks):
            counts[:, group] = block
        yield counts
