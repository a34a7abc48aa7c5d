"""Estimates the rates of wrong labels from labels with known truth."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pvg_hf.config.noise_section import check_rates
from pvg_hf.core.figure import Figure, wilson


@dataclass(frozen=True)
class NoiseEstimate:
    """
    Estimated rates of wrong labels.

    Args:
        rho0: P(label 1 | truth 0); `n` is the number of items that it is estimated from.
        rho1: P(label 0 | truth 1).
    """

    rho0: Figure
    rho1: Figure

    @property
    def rates(self) -> tuple[float, float]:
        """The estimated `(rho0, rho1)`, to be used in a correction."""
        return self.rho0.known, self.rho1.known


def rates_from_trusted(labels: ArrayLike, truths: ArrayLike) -> NoiseEstimate:
    """
    Estimate the rates on a trusted subset, with Wilson intervals.

    The estimate is valid if labels flip independently of each other. A subset that was selected by its labels has
    other rates than all labels.

    Args:
        labels: shape `(num_items,)`. Noisy labels, 0 or 1.
        truths: shape `(num_items,)`. Clean labels, 0 or 1.
    Raises `ValueError` if the shapes differ, a value is neither 0 nor 1, one of the truths is missing, or the
    estimated
        rates sum to 1 or more.
    """
    labels, truths = binary("labels", labels), binary("truths", truths)
    if labels.shape != truths.shape:
        raise ValueError(f"`labels` has shape {labels.shape} and `truths` {truths.shape}; they must agree.")
    estimates = []
    for truth, what in ((0, "incorrect"), (1, "correct")):
        of_class = labels[truths == truth]
        if not len(of_class):
            raise ValueError(
                f"None of the {len(labels)} trusted items is {what}: the rate of these cannot be estimated."
            )
        num_wrong, n = int((of_class != truth).sum()), len(of_class)
        estimates.append(wilson(num_wrong / n, n, n))
    check_rates(*(estimate.known for estimate in estimates))
    return NoiseEstimate(*estimates)


def binary(name: str, values: ArrayLike) -> np.ndarray:
    values = np.asarray(values)
    neither = ~np.isin(values, (0, 1))
    if neither.any():
        raise ValueError(f"`{name}` must be 0 or 1; {int(neither.sum())} are not, e.g. {values[neither][0]}.")
    return values.astype(np.int64)
