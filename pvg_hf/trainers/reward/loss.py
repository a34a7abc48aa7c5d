"""The loss of a batch of pairs under the settings of [`NoisyRewardConfig`], and the label noise drawn for it."""

from typing import cast

import torch

from pvg_hf.config.player_sections import PairCorrection
from pvg_hf.losses import LabelCorrection, bradley_terry, exact_pairwise, pointwise_cross_entropy
from pvg_hf.noise.draws import label_draw, pair_draw
from pvg_hf.noise.rates import flip_labels_by_uniforms
from pvg_hf.trainers.reward.config import NoisyRewardConfig

CLEAN_LABELS = (1.0, 0.0)  # (chosen, rejected)


def clean_labels(num_pairs: int) -> torch.Tensor:
    """Return the labels of (chosen, rejected) according to the dataset: `torch.Tensor` of shape `(num_pairs, 2)`."""
    return torch.tensor(CLEAN_LABELS).repeat(num_pairs, 1)


def mean_labels(labels: torch.Tensor, rates: tuple[float, float]) -> torch.Tensor:
    """Return the mean of `labels` of any shape under noise, as soft labels: `y (1 - rho1) + (1 - y) rho0`."""
    rho0, rho1 = rates
    return labels * (1 - rho1) + (1 - labels) * rho0


def noisy_labels(
    keys: torch.Tensor,
    rates: tuple[float, float],
    level: str,
    *,
    seed: int,
    moment: tuple[object, ...] = (),
    labels: torch.Tensor | None = None,
) -> torch.Tensor:
    """
    Flip the labels of pairs. A label flips if its draw is below its rate.

    A higher rate therefore flips everything that a lower one does, and a solution has the same label in all of its
    pairs.

    Args:
        keys: shape `(num_pairs, 2)`. Keys of (chosen, rejected), see [`~pvg_hf.noise.draws.solution_key`].
        rates: `(rho0, rho1)`: a label 1 flips with probability rho1, a label 0 with rho0.
        level: `"label"`: one draw per solution; `"pair"`: one draw for both labels, which then flip together.
        moment: When labels are drawn again, see [`~pvg_hf.noise.draws.label_draw`].
        labels: shape `(num_pairs, 2)`. Labels of (chosen, rejected) to flip; (1, 0) by default.
    Returns: shape `(num_pairs, 2)`; labels of (chosen, rejected), 0. or 1. (0, 1) is a reversed pair, equal labels are
        a tie.
    """
    pairs = [tuple(pair) for pair in keys.tolist()]
    if level == "pair":
        draws = [[pair_draw(seed, pair, *moment)] * 2 for pair in pairs]
    else:
        draws = [[label_draw(seed, key, *moment) for key in pair] for pair in pairs]
    uniforms = torch.tensor(draws, dtype=torch.float64).reshape(-1, 2)
    labels = clean_labels(len(pairs)) if labels is None else labels.cpu()
    return flip_labels_by_uniforms(labels, uniforms, rates)


def injected_labels(
    keys: torch.Tensor, given: torch.Tensor, args: NoisyRewardConfig, *, epoch: int, step: int
) -> torch.Tensor:
    """
    Return the labels of a batch with the noise that the trainer's arguments configure.

    Args:
        keys, given: shape `(num_pairs, 2)`. Keys and labels of (chosen, rejected).
    Returns: shape `(num_pairs, 2)`; as from [`noisy_labels`], on the device of `given`; soft ones for `mean`.
    """
    rates = (args.noise_rho0, args.noise_rho1)
    if args.noise_resample == "mean":
        return mean_labels(given, rates)
    assert args.noise_seed is not None  # the arguments replace `None`
    moment = {"fixed": (), "epoch": ("epoch", epoch), "step": ("step", step)}[args.noise_resample]
    return noisy_labels(keys, rates, args.noise_level, seed=args.noise_seed, moment=moment, labels=given).to(given)


def pair_loss(
    chosen: torch.Tensor,
    rejected: torch.Tensor,
    args: NoisyRewardConfig,
    *,
    labels: torch.Tensor | None = None,
    margin: torch.Tensor | None = None,
    correction: str = "none",
) -> torch.Tensor:
    """
    Compute the loss of a batch of pairs.

    Args:
        chosen, rejected: shape `(num_pairs,)`. Scores, unbounded.
        labels: shape `(num_pairs, 2)`. Noisy labels of (chosen, rejected), 0 or 1; (1, 0) by default. Bradley-Terry
            reverses a pair with (0, 1) and ignores a tie, except with the correction `"exact"`, which uses all pairs.
        margin: shape `(num_pairs,)`. Margin by which the preferred score must be higher; for the plain Bradley-Terry
            loss.
        correction: See [`~pvg_hf.losses.bradley_terry`], [`~pvg_hf.losses.pointwise_cross_entropy`] and, for
            `"exact"`, [`~pvg_hf.losses.exact_pairwise`].
    Returns: scalar.
    """
    rho0, rho1 = args.assumed_rates
    if args.loss == "cross_entropy" or correction == "exact":
        labels = clean_labels(len(chosen)).to(chosen.device) if labels is None else labels
        if correction == "exact":
            return exact_pairwise(chosen, rejected, labels, rho0=rho0, rho1=rho1, center=args.center)
        return pointwise_cross_entropy(
            torch.cat([chosen, rejected]),
            # (num_pairs, 2) -> all chosen, then all rejected, in the order of the scores
            labels.T.flatten(),
            rho0=rho0,
            rho1=rho1,
            correction=cast(LabelCorrection, correction),
            center=args.center,
        )
    preferred, other, weights = order_by_label(chosen, rejected, labels)
    if margin is not None:  # it shifts the pair's loss, but must not affect the centring of the scores
        return bradley_terry(preferred - margin, other, weights=weights) + centring(chosen, rejected, args)
    return bradley_terry(
        preferred,
        other,
        flip_rate=args.assumed_flip_rate,
        correction=cast(PairCorrection, correction),
        center=args.center,
        weights=weights,
    )


def centring(chosen: torch.Tensor, rejected: torch.Tensor, args: NoisyRewardConfig) -> torch.Tensor:
    """Return `args.center` times the mean square of single scores (Kirchner et al. 2024): a scalar."""
    return args.center * torch.cat([chosen, rejected]).float().square().mean()


def order_by_label(
    chosen: torch.Tensor, rejected: torch.Tensor, labels: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """
    Return `(preferred, other, weights)` by the noisy labels; a tie has weight 0.

    No weights (`None`) without labels.
    """
    if labels is None:
        return chosen, rejected, None
    is_reversed = labels[:, 0] < labels[:, 1]
    preferred = torch.where(is_reversed, rejected, chosen)
    other = torch.where(is_reversed, chosen, rejected)
    return preferred, other, (labels[:, 0] != labels[:, 1]).float()
