"""Flip rates: of a label, and of the pairs that are made from noisy labels."""

from collections.abc import Sequence
from typing import NamedTuple


class PairOutcomeRates(NamedTuple):
    """
    What a pair labelled (correct, incorrect) truly is.

    Args:
        right (`float`):
            Share of pairs that are truly in that order, in [0, 1].
        reversed (`float`):
            Share of pairs that are truly the wrong way round, in [0, 1].
        tied (`float`):
            Share of pairs whose two solutions are truly both correct or both incorrect, in [0, 1].
    """

    right: float
    reversed: float
    tied: float


def check_rates(rho0: float, rho1: float) -> None:
    """
    Raises:
        ValueError: if a rate lies outside [0, 1), or `rho0 + rho1 >= 1`, where a label says nothing of the truth or its
            opposite.
    """
    for name, rate in (("rho0", rho0), ("rho1", rho1)):
        if not 0 <= rate < 1:
            raise ValueError(f"`{name}` is {rate}; a flip rate lies in [0, 1).")
    if rho0 + rho1 >= 1:
        raise ValueError(
            f"`rho0` + `rho1` is {rho0} + {rho1} = {rho0 + rho1}; it must be below 1, or the labels no longer point to "
            "the truth."
        )


def as_rates(rate_or_rates: float | Sequence[float]) -> tuple[float, float]:
    """
    Read one symmetric rate, or both.

    Args:
        rate_or_rates (`float` or `tuple[float, float]`):
            A rate for both classes, or `(rho0, rho1)` with rho0 = P(label 1 | truth 0) and rho1 = P(label 0 | truth 1).

    Returns:
        `tuple[float, float]`: `(rho0, rho1)`.

    Raises:
        ValueError: as [`check_rates`], or if there are not two rates.
    """
    rates = tuple(rate_or_rates) if isinstance(rate_or_rates, Sequence) else (rate_or_rates, rate_or_rates)
    if len(rates) != 2:
        raise ValueError(f"Label noise takes one rate or `(rho0, rho1)`, not {len(rates)} rates: {rates}.")
    check_rates(*rates)
    return rates


def pair_flip_rate(rho0: float, rho1: float) -> float:
    """
    P(reversed | right or reversed): how often a pair labelled (correct, incorrect) is the wrong way round, among the
    pairs that are no ties. It needs no prevalence, and it is NOT the label's flip rate: at rho0 = rho1 = .1 it is 1/82.

    Args:
        rho0 (`float`):
            P(label 1 | truth 0), in [0, 1).
        rho1 (`float`):
            P(label 0 | truth 1), in [0, 1).

    Returns:
        `float`: in [0, .5), the `flip_rate` of [`~pvg_hf.losses.bradley_terry`].

    Raises:
        ValueError: as [`check_rates`].
    """
    check_rates(rho0, rho1)
    both_flipped, none_flipped = rho0 * rho1, (1 - rho0) * (1 - rho1)
    return both_flipped / (both_flipped + none_flipped)


def pair_outcome_rates(rho0: float, rho1: float, share_correct: float = 0.5) -> PairOutcomeRates:
    """
    How the pairs labelled (correct, incorrect) divide into right, reversed and tied under independent label noise.

    Args:
        rho0 (`float`):
            P(label 1 | truth 0), in [0, 1).
        rho1 (`float`):
            P(label 0 | truth 1), in [0, 1).
        share_correct (`float`, *optional*, defaults to `0.5`):
            Share of a problem's solutions that are truly correct, in (0, 1).

    Returns:
        [`PairOutcomeRates`]: `(right, reversed, tied)`, which sum to 1.

    Raises:
        ValueError: as [`check_rates`], or if `share_correct` lies outside (0, 1).
    """
    check_rates(rho0, rho1)
    if not 0 < share_correct < 1:
        raise ValueError(f"`share_correct` is {share_correct}; it must lie in (0, 1), or no pair has an order.")
    share_incorrect = 1 - share_correct
    right = share_correct * share_incorrect * (1 - rho1) * (1 - rho0)
    reversed_ = share_incorrect * share_correct * rho0 * rho1
    tied = share_correct**2 * (1 - rho1) * rho1 + share_incorrect**2 * rho0 * (1 - rho0)
    total = right + reversed_ + tied
    return PairOutcomeRates(right / total, reversed_ / total, tied / total)
