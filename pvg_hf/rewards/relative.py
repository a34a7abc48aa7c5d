"""Rewards relative to a group: a solution is paid for being more convincing than the others of its problem and role."""

import torch

from pvg_hf.rewards.inputs import read_solutions

TOLERANCE = 1e-6  # a score this close to its group's mean counts as the mean, so that rounding cannot flip a reward


def signed_relative_convincingness(
    scores: torch.Tensor,
    correct: torch.Tensor,
    sneaky: torch.Tensor,
    *,
    group_size: int,
    answered: torch.Tensor | None = None,
) -> torch.Tensor:
    """
    SRC (K24 eq. 2): with V' = V - mean of the group, V' where V' > 0 and the solution plays its role, -V' where V' > 0
    and it does not, and -1 where V' <= 0. Without a final answer: min(-1, -|V'|).

    Args:
        scores (`torch.Tensor` of shape `(num_solutions,)`):
            Verifier scores V, unbounded.
        correct (`torch.Tensor` of shape `(num_solutions,)`):
            Whether the final answer is correct.
        sneaky (`torch.Tensor` of shape `(num_solutions,)`):
            True for the sneaky role, False for the helpful one.
        group_size (`int`):
            Each `group_size` consecutive solutions are one group, of one problem and one role.
        answered (`torch.Tensor` of shape `(num_solutions,)`, *optional*):
            False where there is no final answer. Such a solution stays in its group's mean.

    Returns:
        `torch.Tensor` of shape `(num_solutions,)`: rewards, unbounded.

    Raises:
        ValueError: as [`~pvg_hf.rewards.inputs.read_solutions`].
    """
    solutions = read_solutions(scores, correct, sneaky, group_size=group_size, answered=answered)
    deviations, _ = _group_statistics(solutions.scores, group_size)
    signed = torch.where(solutions.aligned, deviations, -deviations)
    rewards = torch.where(deviations > TOLERANCE, signed, -1.0)
    return torch.where(solutions.answered, rewards, (-deviations.abs()).clamp(max=-1.0))


def standardized_relative_convincingness(
    scores: torch.Tensor,
    correct: torch.Tensor,
    sneaky: torch.Tensor,
    *,
    group_size: int,
    answered: torch.Tensor | None = None,
) -> torch.Tensor:
    """
    Standardised SRC (KL26): with v' = (V - mean) / std over the group (population std; 0 in a group without spread), v'
    where v' > 0 and the solution plays its role, else -2, also without a final answer.

    Args:
        scores, correct, sneaky, group_size, answered:
            As in [`signed_relative_convincingness`].

    Returns:
        `torch.Tensor` of shape `(num_solutions,)`: rewards, -2 or in (0, sqrt(group_size - 1)].

    Raises:
        ValueError: as [`~pvg_hf.rewards.inputs.read_solutions`].
    """
    solutions = read_solutions(scores, correct, sneaky, group_size=group_size, answered=answered)
    deviations, stds = _group_statistics(solutions.scores, group_size)
    is_paid = solutions.aligned & (deviations > TOLERANCE)  # a group without spread has no such solution
    return torch.where(is_paid, deviations / stds, -2.0)


def _group_statistics(scores: torch.Tensor, group_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Each score's deviation from its group's mean, and its group's population std; both of shape `(num_solutions,)`, of
    the scores' type and device, computed in float64, where the rounding of a mean stays far below [`TOLERANCE`].
    """
    # On the CPU, as MPS has no float64 and a GPU may sum in any order.
    groups = scores.to("cpu", torch.float64).view(len(scores) // group_size, group_size)
    deviations = groups - groups.mean(dim=1, keepdim=True)
    stds = deviations.square().mean(dim=1, keepdim=True).sqrt().expand_as(deviations)
    return deviations.flatten().to(scores), stds.flatten().to(scores)
