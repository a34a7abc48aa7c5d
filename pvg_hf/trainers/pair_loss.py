"""The loss of a batch of pairs, as the settings of [`NoisyRewardConfig`] have it."""

import torch

from pvg_hf.losses import bradley_terry, exact_pairwise, pointwise_cross_entropy
from pvg_hf.trainers.noisy_reward_config import NoisyRewardConfig
from pvg_hf.trainers.pair_noise import clean_labels


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
    Args:
        chosen, rejected (`torch.Tensor` of shape `(num_pairs,)`):
            Scores, unbounded.
        args ([`NoisyRewardConfig`]):
            The kind of loss, the assumed rates and the centring.
        labels (`torch.Tensor` of shape `(num_pairs, 2)`, *optional*):
            Noisy labels of (chosen, rejected), 0 or 1; (1, 0) throughout by default. Bradley-Terry turns a pair with
            (0, 1) round and leaves a tie out, but for the correction `"exact"`, which takes all pairs.
        margin (`torch.Tensor` of shape `(num_pairs,)`, *optional*):
            By how much the preferred score must win; for the plain Bradley-Terry loss.
        correction (`str`, defaults to `"none"`):
            See [`~pvg_hf.losses.bradley_terry`], [`~pvg_hf.losses.pointwise_cross_entropy`] and, for `"exact"`,
            [`~pvg_hf.losses.exact_pairwise`].

    Returns:
        `torch.Tensor`: scalar.
    """
    rho0, rho1 = args.assumed_rates
    if args.loss == "cross_entropy" or correction == "exact":
        labels = clean_labels(len(chosen)).to(chosen.device) if labels is None else labels
    if correction == "exact":
        return exact_pairwise(chosen, rejected, labels, rho0=rho0, rho1=rho1, center=args.center)
    if args.loss == "cross_entropy":
        return pointwise_cross_entropy(
            torch.cat([chosen, rejected]),
            labels.T.flatten(),
            rho0=rho0,
            rho1=rho1,
            correction=correction,
            center=args.center,
        )
    preferred, other, weights = in_order(chosen, rejected, labels)
    if margin is not None:  # it moves the pair's loss, and leaves the centring of the scores alone
        return bradley_terry(preferred - margin, other, weights=weights) + centring(chosen, rejected, args)
    return bradley_terry(
        preferred,
        other,
        flip_rate=args.assumed_flip_rate,
        correction=correction,
        center=args.center,
        weights=weights,
    )


def centring(chosen: torch.Tensor, rejected: torch.Tensor, args: NoisyRewardConfig) -> torch.Tensor:
    """`args.center` times the mean square of single scores (K24): a scalar."""
    return args.center * torch.cat([chosen, rejected]).float().square().mean()


def in_order(
    chosen: torch.Tensor, rejected: torch.Tensor, labels: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """`(preferred, other, weights)` by the noisy labels; the weight of a tie is 0, `None` where there are none."""
    if labels is None:
        return chosen, rejected, None
    is_reversed = labels[:, 0] < labels[:, 1]
    preferred = torch.where(is_reversed, rejected, chosen)
    other = torch.where(is_reversed, chosen, rejected)
    return preferred, other, (labels[:, 0] != labels[:, 1]).float()
