"""Token-level rewards, advantages and PPO's losses over completions of unequal length (Schulman et al. 2016, 2017)."""

from collections.abc import Callable

import torch

Total = Callable[[torch.Tensor], torch.Tensor]  # sums a tensor over all processes

_LEAST_VARIANCE = 1e-8


def alone(tensor: torch.Tensor) -> torch.Tensor:
    """The [`Total`] of a single process."""
    return tensor


def token_rewards(rewards: torch.Tensor, kl: torch.Tensor, mask: torch.Tensor, *, kl_coef: float) -> torch.Tensor:
    """
    What each token is paid: `-kl_coef * kl`, and the solution's reward on its last token.

    Args:
        rewards (`torch.Tensor` of shape `(B,)`):
            Of whole solutions.
        kl (`torch.Tensor` of shape `(B, T)`):
            `log p(token) - log p_reference(token)`, whose mean over a policy's own tokens is its KL divergence.
        mask (`torch.Tensor` of shape `(B, T)`):
            Booleans; False outside of a solution, where nothing is read.
        kl_coef (`float`):
            Weight of the divergence.

    Returns:
        `torch.Tensor` of shape `(B, T)`; 0 where `mask` is False.
    """
    places = torch.arange(mask.shape[1], device=mask.device)
    last = (places * mask).argmax(dim=1, keepdim=True)
    is_last = (places == last) & mask
    return -kl_coef * kl.masked_fill(~mask, 0.0) + torch.where(is_last, rewards[:, None], 0.0)


def generalized_advantages(
    rewards: torch.Tensor, values: torch.Tensor, mask: torch.Tensor, *, gamma: float, gae_lambda: float
) -> torch.Tensor:
    """
    Generalised advantage estimation: `sum_l (gamma * gae_lambda)^l delta_{t+l}` with
    `delta_t = r_t + gamma * V_{t+1} - V_t`, and a value of 0 after the last token. Masked tokens are passed over: the next
    token of a solution is its next one under the mask.

    Args:
        rewards, values (`torch.Tensor` of shape `(B, T)`):
            Of each token, and of the state before it.
        mask (`torch.Tensor` of shape `(B, T)`):
            Booleans; False outside of a solution, where nothing is read.
        gamma (`float`), gae_lambda (`float`):
            In [0, 1].

    Returns:
        `torch.Tensor` of shape `(B, T)`; 0 where `mask` is False. The critic's targets are these plus `values`.
    """
    advantages = torch.zeros_like(values)
    next_value = next_advantage = torch.zeros_like(values[:, 0])
    for step in reversed(range(values.shape[1])):
        is_token = mask[:, step]
        error = rewards[:, step] + gamma * next_value - values[:, step]
        advantage = error + gamma * gae_lambda * next_advantage
        advantages[:, step] = advantage.where(is_token, 0.0)
        next_value = values[:, step].where(is_token, next_value)
        next_advantage = advantage.where(is_token, next_advantage)
    return advantages


def masked_mean(values: torch.Tensor, mask: torch.Tensor, total: Total = alone) -> torch.Tensor:
    """
    Mean over the tokens of all processes.

    Args:
        values, mask (`torch.Tensor` of shape `(B, T)`):
            Of this process; nothing is read where `mask` is False.
        total ([`Total`], *optional*):
            Sums over processes.

    Returns:
        `torch.Tensor` of shape `()`, the same on every process; 0 where no process has a token.
    """
    kept = values[mask].float()
    amount, number = total(torch.stack([kept.sum(), torch.tensor(float(len(kept)), device=kept.device)]))
    return amount / number.clamp(min=1.0)


def whiten(advantages: torch.Tensor, mask: torch.Tensor, total: Total = alone) -> torch.Tensor:
    """
    Shift and scale to mean 0 and (population) variance 1 over the tokens of all processes.

    Args:
        advantages, mask (`torch.Tensor` of shape `(B, T)`):
            Of this process.
        total ([`Total`], *optional*):
            Sums over processes.

    Returns:
        `torch.Tensor` of shape `(B, T)`; 0 where `mask` is False.
    """
    centred = advantages - masked_mean(advantages, mask, total)
    variance = masked_mean(centred.square(), mask, total)
    return (centred * torch.rsqrt(variance + _LEAST_VARIANCE)).masked_fill(~mask, 0.0)


def explained_variance(
    values: torch.Tensor, returns: torch.Tensor, mask: torch.Tensor, total: Total = alone
) -> torch.Tensor:
    """
    Share of the variance of `returns` that `values` account for: 1 for a perfect critic, 0 for a constant one, below 0 for
    one that is worse than a constant.

    Args:
        values, returns, mask (`torch.Tensor` of shape `(B, T)`):
            Of this process.
        total ([`Total`], *optional*):
            Sums over processes.

    Returns:
        `torch.Tensor` of shape `()`; NaN where all returns are equal.
    """
    left = _variance(returns - values, mask, total)
    whole = _variance(returns, mask, total)
    return torch.where(whole > 0, 1 - left / whole, torch.nan)


def _variance(values: torch.Tensor, mask: torch.Tensor, total: Total) -> torch.Tensor:
    return masked_mean((values - masked_mean(values, mask, total)).square(), mask, total)


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
