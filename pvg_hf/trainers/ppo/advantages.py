"""Token-level rewards, advantages and PPO's losses for completions of unequal length (Schulman et al. 2016, 2017)."""

from collections.abc import Callable

import torch

Total = Callable[[torch.Tensor], torch.Tensor]  # function that sums a tensor over all processes

_LEAST_VARIANCE = 1e-8


def alone(tensor: torch.Tensor) -> torch.Tensor:
    """Return `tensor`: the [`Total`] of a single process."""
    return tensor


def token_rewards(rewards: torch.Tensor, kl: torch.Tensor, mask: torch.Tensor, *, kl_coef: float) -> torch.Tensor:
    """
    Return the reward of each token: `-kl_coef * kl`, plus the solution's reward on its last token.

    Args:
        rewards: shape `(B,)`. Rewards of whole solutions.
        kl: shape `(B, T)`. `log p(token) - log p_reference(token)`; its mean over a policy's own tokens estimates the
            KL divergence.
        mask: shape `(B, T)`. Booleans; False outside of a solution, where other values are ignored.
        kl_coef: Weight of the divergence.
    Returns: `torch.Tensor` of shape `(B, T)`; 0 where `mask` is False.
    """
    places = torch.arange(mask.shape[1], device=mask.device)
    last = (places * mask).argmax(dim=1, keepdim=True)
    is_last = (places == last) & mask
    return -kl_coef * kl.masked_fill(~mask, 0.0) + torch.where(is_last, rewards[:, None], 0.0)


def generalized_advantages(
    rewards: torch.Tensor, values: torch.Tensor, mask: torch.Tensor, *, gamma: float, gae_lambda: float
) -> torch.Tensor:
    """
    Generalised advantage estimation: `sum_l (gamma * gae_lambda)^l delta_{t+l}`.

    Here `delta_t = r_t + gamma * V_{t+1} - V_t`, and the value after the last token is 0. Masked tokens are skipped:
    the token after a solution's token is the next one under the mask.

    Args:
        rewards, values: shape `(B, T)`. Reward of each token, and value of the state before it.
        mask: shape `(B, T)`. Booleans; False outside of a solution, where other values are ignored.
        gamma, gae_lambda: Discount and lambda, in [0, 1].
    Returns: `torch.Tensor` of shape `(B, T)`; 0 where `mask` is False. The critic's targets are these advantages plus
        `values`.
    """
    advantages = torch.zeros_like(values)
    # (B,): value and advantage of the next token under the mask
    next_value = next_advantage = torch.zeros_like(values[:, 0])
    for step in reversed(range(values.shape[1])):
        is_token = mask[:, step]
        error = rewards[:, step] + gamma * next_value - values[:, step]
        advantage = error + gamma * gae_lambda * next_advantage
        advantages[:, step] = advantage.where(is_token, 0.0)
        # A masked position passes on the state of the token after it.
        next_value = values[:, step].where(is_token, next_value)
        next_advantage = advantage.where(is_token, next_advantage)
    return advantages


def masked_mean(values: torch.Tensor, mask: torch.Tensor, total: Total = alone) -> torch.Tensor:
    """
    Return the mean over the tokens of all processes.

    Args:
        values, mask: shape `(B, T)`. Values of this process; they are ignored where `mask` is False.
        total: Function that sums over processes.
    Returns: `torch.Tensor` of shape `()`, the same on every process; 0 if no process has a token.
    """
    kept = values[mask].float()
    amount, number = total(torch.stack([kept.sum(), torch.tensor(float(len(kept)), device=kept.device)]))
    return amount / number.clamp(min=1.0)


def whiten(advantages: torch.Tensor, mask: torch.Tensor, total: Total = alone) -> torch.Tensor:
    """
    Shift and scale advantages to mean 0 and (population) variance 1 over the tokens of all processes.

    Args:
        advantages, mask: shape `(B, T)`. Values of this process.
        total: Function that sums over processes.
    Returns: `torch.Tensor` of shape `(B, T)`; 0 where `mask` is False.
    """
    centred = advantages - masked_mean(advantages, mask, total)
    variance = masked_mean(centred.square(), mask, total)
    return (centred * torch.rsqrt(variance + _LEAST_VARIANCE)).masked_fill(~mask, 0.0)


def explained_variance(
    values: torch.Tensor, returns: torch.Tensor, mask: torch.Tensor, total: Total = alone
) -> torch.Tensor:
    """
    Return the share of the variance of `returns` that `values` explain.

    It is 1 for a perfect critic, 0 for a constant one, and below 0 for one that is worse than a constant.

    Args:
        values, returns, mask: shape `(B, T)`. Values of this process.
        total: Function that sums over processes.
    Returns: `torch.Tensor` of shape `()`; NaN if all returns are equal.
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
    Return half the squared error of each value, or of the value clipped to within `clip_range` of the old one, if
    larger.

    One batch therefore moves a critic towards the returns by at most `clip_range`.

    Args:
        values, old_values, returns: shape `(B, T)`. Values of the current critic, values of the critic before the
            batch, and their targets.
        clip_range: Clipping range, in units of the reward; `None` for no clipping.
    Returns: `torch.Tensor` of shape `(B, T)`.
    """
    squared = (values - returns).square()
    if clip_range is None:
        return squared / 2
    held = old_values + (values - old_values).clamp(-clip_range, clip_range)
    return torch.max(squared, (held - returns).square()) / 2


def kl_estimate(log_ratio: torch.Tensor) -> torch.Tensor:
    """
    Estimate KL(p || q) from samples of `p` by `exp(r) - 1 - r` with `r = log q - log p` (Schulman's k3).

    It is never negative, and has a lower variance than `-r`.
    """
    return log_ratio.expm1() - log_ratio
