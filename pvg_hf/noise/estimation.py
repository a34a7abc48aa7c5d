"""The rates of wrong labels, estimated from labels whose truth is known."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binomtest

from pvg_hf.noise.rates import check_rates

CONFIDENCE = 0.95


class RateEstimate(NamedTuple):
    """
    Args:
        value (`float`):
            Of the rate, in [0, 1].
        low (`float`), high (`float`):
            Its 95 % interval.
        n (`int`):
            Number of items that it is estimated from.
    """

    value: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}] n={self.n}"


@dataclass(frozen=True)
class NoiseEstimate:
    """
    Args:
        rho0 ([`RateEstimate`]):
            P(label 1 | truth 0).
        rho1 ([`RateEstimate`]):
            P(label 0 | truth 1).
    """

    rho0: RateEstimate
    rho1: RateEstimate

    @property
    def rates(self) -> tuple[float, float]:
        """`(rho0, rho1)`, fit for a correction."""
        return self.rho0.value, self.rho1.value


def rates_from_trusted(labels: ArrayLike, truths: ArrayLike) -> NoiseEstimate:
    """
    The rates of a trusted subset, with Wilson intervals. Right for labels that flip independently of each other; a subset
    that was chosen by its labels gives other rates than those of all labels.

    Args:
        labels (`ArrayLike` of shape `(num_items,)`):
            Noisy labels, 0 or 1.
        truths (`ArrayLike` of shape `(num_items,)`):
            Clean labels, 0 or 1.

    Raises:
        ValueError: if the shapes differ, a value is neither 0 nor 1, a truth is not there at all, or the estimated rates
            sum to 1 or more.
    """
    labels, truths = binary("labels", labels), binary("truths", truths)
    if labels.shape != truths.shape:
        raise ValueError(f"`labels` has shape {labels.shape} and `truths` {truths.shape}; they must agree.")
    estimates = []
    for truth, what in ((0, "incorrect"), (1, "correct")):
        of_class = labels[truths == truth]
        if not len(of_class):
            raise ValueError(
                f"None of the {len(labels)} trusted items is {what}, so that no rate of these can be told."
            )
        estimates.append(_wilson(int((of_class != truth).sum()), len(of_class)))
    check_rates(*(estimate.value for estimate in estimates))
    return NoiseEstimate(*estimates)


def binary(name: str, values: ArrayLike) -> np.ndarray:
    """
    Raises:
        ValueError: if a value is neither 0 nor 1.
    """
    values = np.asarray(values)
    neither = ~np.isin(values, (0, 1))
    if neither.any():
        raise ValueError(f"`{name}` must be 0 or 1; {int(neither.sum())} are not, e.g. {values[neither][0]}.")
    return values.astype(np.int64)


def _wilson(successes: int, n: int) -> RateEstimate:
    interval = binomtest(successes, n).proportion_ci(CONFIDENCE, method="wilson")
    return RateEstimate(successes / n, float(interval.low), float(interval.high), n)
