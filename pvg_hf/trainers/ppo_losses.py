"""The parts of PPO's loss that TRL's clipped policy loss leaves open (Schulman et al. 2017, 1707.06347)."""

import torch


def clipped_value_loss(
    values: torch.Tensor, old_values: torch.Tensor, returns: torch.Tensor, *, clip_range: float | None
) -> torch.Tensor:
    """
    Half the squared error of each value, or of the value held within `clip_range` of the old one, whichever is larger: a
    critic is pulled towards the returns no further than `clip_range` on one batch.

    Args:
        values, old_values, returns (`torch.Tensor` of shape `(B, T)`):
            Of the critic now, of the critic that the batch was judged by, and what it should say.
        clip_range (`float`, *optional*):
            In units of the reward; `None` leaves the clipping out.

    Returns:
        `torch.Tensor` of shape `(B, T)`.
    """
    squared = (values - returns).square()
    if clip_range is None:
        return squared / 2
    held = old_values + (values - old_values).clamp(-clip_range, clip_range)
    return torch.max(squared, (held - returns).square()) / 2


def kl_estimate(log_ratio: torch.Tensor) -> torch.Tensor:
    """
    `exp(r) - 1 - r`, whose mean over samples of `p` is KL(p || q) where `r = log q - log p` (Schulman's k3): never negative,
    and of a smaller variance than `-r`.

    Args:
        log_ratio (`torch.Tensor`):
            `log q - log p` of samples of `p`.
    """
    return log_ratio.expm1() - log_ratio
