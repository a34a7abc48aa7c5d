"""Flip rates of labels and of pairs built from them, and functions that flip labels."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from pvg_hf.config.noise_section import check_rates


class PairOutcomeRates(NamedTuple):
    """
    Shares of the true orders among pairs labelled (correct, incorrect).

    Args:
        right (`float`):
            Share of pairs that are truly in that order, in [0, 1].
        reversed (`float`):
            Share of pairs that are truly in the opposite order, in [0, 1].
        tied (`float`):
            Share of pairs with two correct or two incorrect solutions, in [0, 1].
    """

    right: float
    reversed: float
    tied: float


def read_rates(rate_or_rates: float | Sequence[float]) -> tuple[float, float]:
    """
    Read a symmetric rate or a pair of rates.

    Returns: `(rho0, rho1)`, with rho0 = P(label 1 | truth 0) and rho1 = P(label 0 | truth 1).
    Raises `ValueError` as for [`check_rates`], or if there are not two rates.
    """
    rates = tuple(rate_or_rates) if isinstance(rate_or_rates, Sequence) else (rate_or_rates, rate_or_rates)
    if len(rates) != 2:
        raise ValueError(f"Label noise takes one rate or `(rho0, rho1)`, not {len(rates)} rates: {rates}.")
    check_rates(*rates)
    return rates


def pair_flip_rate(rho0: float, rho1: float) -> float:
    """
    P(reversed | right or reversed): how often a pair labelled (correct, incorrect) is reversed, ties excluded.

    It does not depend on the prevalence, and it is NOT the label's flip rate: at rho0 = rho1 = .1 it is 1/82.

    Args:
        rho0 (`float`):
            P(label 1 | truth 0), in [0, 1).
        rho1 (`float`):
            P(label 0 | truth 1), in [0, 1).

    Returns:
        `float`: in [0, .5), the `flip_rate` of [`~pvg_hf.losses.bradley_terry`].

    Raises:
        ValueError: as for [`check_rates`].
    """
    check_rates(rho0, rho1)
    # A pair labelled (1, 0) is reversed if its truths are (0, 1) and both labels flipped; the prevalence cancels.
    both_flipped, none_flipped = rho0 * rho1, (1 - rho0) * (1 - rho1)
    return both_flipped / (both_flipped + none_flipped)


def pair_outcome_rates(rho0: float, rho1: float, share_correct: float = 0.5) -> PairOutcomeRates:
    """
    Shares of right, reversed and tied pairs among those labelled (correct, incorrect), under independent label noise.

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
        ValueError: as for [`check_rates`], or if `share_correct` is outside (0, 1).
    """
    check_rates(rho0, rho1)
    if not 0 < share_correct < 1:
        raise ValueError(f"`share_correct` is {share_correct}; it must lie in (0, 1), or no pair has an order.")
    # Each product is P(first truth) P(second truth) P(labels are (1, 0) | truths).
    share_incorrect = 1 - share_correct
    right = share_correct * share_incorrect * (1 - rho1) * (1 - rho0)
    reversed_ = share_incorrect * share_correct * rho0 * rho1
    tied = share_correct**2 * (1 - rho1) * rho1 + share_incorrect**2 * rho0 * (1 - rho0)
    total = right + reversed_ + tied
    return PairOutcomeRates(right / total, reversed_ / total, tied / total)


def flip_labels(
    labels: torch.Tensor, rate_or_rates: float | Sequence[float], *, generator: torch.Generator
) -> torch.Tensor:
    """
    Flip labels independently (class-conditional noise).

    Each label takes one uniform draw whatever the rates. With the generator in the same state, a higher rate therefore
    flips everything that a lower one does, and more.

    Args:
        labels (`torch.Tensor`):
            Clean labels of any shape, 0 or 1, of a bool, integer or floating type. They are not modified.
        rate_or_rates (`float` or `tuple[float, float]`):
            A rate for both classes, or `(rho0, rho1)` with rho0 = P(label 1 | truth 0) and rho1 = P(label 0 | truth
            1).
        generator (`torch.Generator`):
            Source of the draws; no global generator is used.

    Returns:
        `torch.Tensor`: labels of the same shape, type and device.

    Raises:
        ValueError: if a label is neither 0 nor 1, a rate is outside [0, 1), or the two rates sum to 1 or more.
    """
    uniforms = torch.rand(labels.shape, generator=generator, device=generator.device, dtype=torch.float64)
    noisy = flip_labels_by_uniforms(labels.to(generator.device), uniforms, rate_or_rates)
    return noisy.to(labels.device)


def flip_labels_by_uniforms(
    labels: torch.Tensor, uniforms: torch.Tensor, rate_or_rates: float | Sequence[float]
) -> torch.Tensor:
    """
    Flip labels by given draws, e.g. one per solution from [`~pvg_hf.core.seeding.derive_uniform`].

    Unlike in [`flip_labels`], the noise can then be independent of order and batch. A label flips if its draw is
    strictly below the rate of its true class.

    Args:
        labels (`torch.Tensor`):
            Clean labels of any shape, 0 or 1.
        uniforms (`torch.Tensor`):
            One draw in [0, 1) per label.
        rate_or_rates (`float` or `tuple[float, float]`):
            As for [`flip_labels`].

    Returns:
        `torch.Tensor`: labels of the same shape, type and device.

    Raises:
        ValueError: as for [`flip_labels`], or if there is not one draw per label, or a draw is outside [0, 1).
    """
    rho0, rho1 = read_rates(rate_or_rates)
    if uniforms.shape != labels.shape:
        raise ValueError(
            f"`uniforms` has shape {tuple(uniforms.shape)} and `labels` {tuple(labels.shape)}; every label needs one"
            " draw."
        )
    outside = uniforms[~((uniforms >= 0) & (uniforms < 1))]
    if len(outside):
        raise ValueError(
            f"`uniforms` has {len(outside)} values outside [0, 1), e.g. {outside[0].item()}; draw them from [0, 1)."
        )
    is_one = labels == 1
    _check_all(is_one | (labels == 0), labels, "0 or 1")
    flips = torch.where(is_one, uniforms < rho1, uniforms < rho0)
    return (is_one ^ flips).to(labels.dtype)


def effective_label(labels: torch.Tensor, epsilon: float) -> torch.Tensor:
    """
    Return the mean of a label under symmetric flips, `(1 - 2 epsilon) y + epsilon`: a soft label.

    Args:
        labels (`torch.Tensor`):
            Labels of any shape, in [0, 1], of a bool, integer or floating type.
        epsilon (`float`):
            P(flip), in [0, .5).

    Returns:
        `torch.Tensor`: soft labels in [epsilon, 1 - epsilon], of the labels' floating type or of torch's default one.

    Raises:
        ValueError: if a label is outside [0, 1] or `epsilon` is outside [0, .5).
    """
    if not 0 <= epsilon < 0.5:
        raise ValueError(
            f"`epsilon` is {epsilon}; it must lie in [0, 0.5), or the labels no longer indicate the truth."
        )
    _check_all((labels >= 0) & (labels <= 1), labels, "in [0, 1]")
    soft = labels if labels.is_floating_point() else labels.to(torch.get_default_dtype())
    return (1 - 2 * epsilon) * soft + epsilon


def _check_all(allowed: torch.Tensor, labels: torch.Tensor, what: str) -> None:
    if not allowed.all():
        raise ValueError(
            f"`labels` must be {what}; {int((~allowed).sum())} are not, e.g. {labels[~allowed][0].item()}."
        )
