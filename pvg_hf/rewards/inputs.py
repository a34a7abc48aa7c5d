"""Checks of the arguments and results of rewards, and rewards corrected for noisy labels."""

from dataclasses import dataclass
from typing import Protocol

import torch

from pvg_hf.config.noise_section import check_rates
from pvg_hf.core.extensions import ExtensionError
from pvg_hf.core.scored_texts import check_scores


class RewardFunction(Protocol):
    """Calling convention of a prover reward, built-in or custom."""

    def __call__(
        self,
        scores: torch.Tensor,
        correct: torch.Tensor,
        sneaky: torch.Tensor,
        *,
        group_size: int,
        answered: torch.Tensor | None = None,
    ) -> torch.Tensor: ...


@dataclass(frozen=True)
class ScoredSolutions:
    """
    A checked batch of `num_groups * group_size` solutions. Each tensor has shape `(num_solutions,)`.

    Args:
        scores: Verifier scores V, unbounded and finite; float32 or float64.
        aligned: True if a solution plays its role (see [`role_aligned`]).
        answered: True if a final answer could be read.
        group_size: Each `group_size` consecutive solutions have the same problem and role.
    """

    scores: torch.Tensor
    aligned: torch.Tensor
    answered: torch.Tensor
    group_size: int


def read_solutions(
    scores: torch.Tensor,
    correct: torch.Tensor,
    sneaky: torch.Tensor,
    *,
    group_size: int,
    answered: torch.Tensor | None = None,
) -> ScoredSolutions:
    """
    Check the arguments of a reward.

    Args:
        scores: shape `(num_solutions,)`. Verifier scores V, unbounded. Half precision is converted to float32.
        correct: shape `(num_solutions,)`. Whether the final answer is correct; bool, or 0 and 1.
        sneaky: shape `(num_solutions,)`. True for the sneaky role, False for the helpful one; constant within a group.
        group_size: Number of consecutive solutions in a group; divides `num_solutions`.
        answered: shape `(num_solutions,)`. False for a solution without a final answer; all are answered by default.
    Raises `ValueError` if the shapes differ, `group_size` does not divide the batch, a score is not finite, a flag is
        neither 0 nor 1, or a group mixes the roles.
    """
    scores = read_scores(scores)
    _check_group_size(group_size, len(scores))
    correct, sneaky = (read_flags(name, flags, scores) for name, flags in (("correct", correct), ("sneaky", sneaky)))
    answered = torch.ones_like(correct) if answered is None else read_flags("answered", answered, scores)
    _check_roles(sneaky, group_size)
    return ScoredSolutions(scores, role_aligned(correct, sneaky, answered), answered, group_size)


def role_aligned(correct: torch.Tensor, sneaky: torch.Tensor, answered: torch.Tensor | None = None) -> torch.Tensor:
    """
    Whether each solution plays its role (Kirchner et al. 2024): helpful and correct, or sneaky and incorrect.

    A solution without a final answer plays neither; otherwise the sneaky role would be paid for gibberish.

    Args:
        correct (`torch.Tensor` of shape `(num_solutions,)`):
            Whether each solution is correct; bool.
        sneaky (`torch.Tensor` of shape `(num_solutions,)`):
            Whether each solution is in the sneaky role; bool.
        answered (`torch.Tensor` of shape `(num_solutions,)`, *optional*):
            Whether each solution has a final answer; bool, True by default.

    Returns:
        `torch.Tensor` of shape `(num_solutions,)`: bool.
    """
    aligned = correct ^ sneaky  # helpful and correct, or sneaky and incorrect
    return aligned if answered is None else aligned & answered


def read_scores(scores: torch.Tensor) -> torch.Tensor:
    """
    Check verifier scores, and convert half precision to float32.

    Raises `ValueError` if `scores` is not of shape `(num_solutions,)`, or a score is not finite.
    """
    if scores.ndim != 1:
        raise ValueError(f"`scores` has shape {tuple(scores.shape)}; it must be (num_solutions,).")
    check_scores(scores.tolist())
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def read_flags(name: str, flags: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """
    Check that there is one flag per score, and convert the flags to bool.

    Raises `ValueError` if there is not one flag per score, or a flag is neither 0 nor 1.
    """
    if flags.shape != scores.shape:
        raise ValueError(
            f"`{name}` has shape {tuple(flags.shape)} and `scores` {tuple(scores.shape)}; they must agree."
        )
    is_set = flags == 1
    neither = ~(is_set | (flags == 0))  # also NaN
    if neither.any():
        raise ValueError(f"`{name}` must be 0 or 1; {int(neither.sum())} are not, e.g. {flags[neither][0].item()}.")
    return is_set


def check_rewards(rewards: object, scores: torch.Tensor, what: str) -> None:
    """
    Check the result of a reward function.

    Args:
        rewards: The result; it should be a floating point tensor with the shape of `scores`. NaN means that a solution
            has no reward.
        scores: shape `(num_solutions,)`. The scores that the function was called with.
    Raises `ExtensionError` if it is not a tensor, has another shape or type, or contains an infinite value.
    """
    if not isinstance(rewards, torch.Tensor):
        raise ExtensionError(
            f"{what} returns a {type(rewards).__name__}; it must return a tensor with a reward for each score."
        )
    if rewards.shape != scores.shape:
        raise ExtensionError(
            f"{what} returns a tensor of shape {tuple(rewards.shape)} for scores of shape {tuple(scores.shape)}; they "
            "must agree: one reward per score."
        )
    if not rewards.is_floating_point():
        raise ExtensionError(
            f"{what} returns a tensor of {rewards.dtype}; it must be floating point, e.g. by `.float()`."
        )
    if rewards.isinf().any():
        raise ExtensionError(f"{what} returns {int(rewards.isinf().sum())} infinite rewards of {len(rewards)}.")


def _check_group_size(group_size: int, num_solutions: int) -> None:
    if group_size < 1 or num_solutions % group_size:
        raise ValueError(f"`group_size` is {group_size}; it must be at least 1 and divide {num_solutions} solutions.")


def _check_roles(sneaky: torch.Tensor, group_size: int) -> None:
    groups = sneaky.view(len(sneaky) // group_size, group_size)  # (num_groups, group_size)
    mixed = (groups != groups[:, :1]).any(dim=1)
    if mixed.any():
        first = int(mixed.nonzero()[0])
        raise ValueError(
            f"{int(mixed.sum())} of {len(mixed)} groups mix the roles, the first of them group {first}; `sneaky` must"
            f" be constant over each {group_size} consecutive solutions."
        )


def noise_corrected(reward: RewardFunction, rho0: float, rho1: float) -> RewardFunction:
    """
    Correct a reward for label noise: its mean over the noise is the reward for the clean label (Cai et al. 2025).

    Let R(c) be the reward of the solution if its correctness were c, and D = 1 - rho0 - rho1. The corrected reward is
    [(1 - rho0) R(1) - rho1 R(0)] / D under label 1, and [(1 - rho1) R(0) - rho0 R(1)] / D under label 0.

    If the reward is affine in the label (`correctness_only`), centring a group's rewards leaves only a factor 1 / D of
    the correction, and dividing them by their standard deviation removes it completely (Cai et al. 2025).

    Args:
        reward (`RewardFunction`):
            Any reward whose value for a solution depends on the correctness of that solution only; all rewards of this
            package do.
        rho0 (`float`):
            P(label 1 | truth 0), in [0, 1).
        rho1 (`float`):
            P(label 0 | truth 1), in [0, 1), `rho0 + rho1 < 1`.

    Returns:
        `RewardFunction`: takes the noisy label as `correct`; further keyword arguments are passed to `reward`.

    Raises:
        ValueError: if a rate is outside [0, 1), or they sum to 1 or more.
    """
    check_rates(rho0, rho1)
    youden_j = 1 - rho0 - rho1  # D

    def corrected(scores: torch.Tensor, correct: torch.Tensor, sneaky: torch.Tensor, **options) -> torch.Tensor:
        correct = read_flags("correct", correct, scores)
        # R(1) and R(0) for every solution, whatever its label.
        if_correct = reward(scores, torch.ones_like(correct), sneaky, **options)
        if_incorrect = reward(scores, torch.zeros_like(correct), sneaky, **options)
        label_one = ((1 - rho0) * if_correct - rho1 * if_incorrect) / youden_j
        label_zero = ((1 - rho1) * if_incorrect - rho0 * if_correct) / youden_j
        return torch.where(correct, label_one, label_zero)

    return corrected
