"""
Rewards relative to a group: a solution earns more if it is more convincing than others of the same problem and role.
"""

import torch

from pvg_hf.rewards.inputs import read_solutions

TOLERANCE = 1e-6  # a score this close to its group's mean counts as equal to it, so that rounding cannot flip a reward


def signed_relative_convincingness(
    scores: torch.Tensor,
    correct: torch.Tensor,
    sneaky: torch.Tensor,
    *,
    group_size: int,
    answered: torch.Tensor | None = None,
) -> torch.Tensor:
    """
    Signed relative convincingness (SRC; Kirchner et al. 2024, eq. 2).

    With V' = V - mean of the group, the reward is V' if V' > 0 and the solution plays its role, -V' if V' > 0 and it
    does not, and -1 if V' <= 0. Without a final answer it is min(-1, -|V'|).

    Args:
        scores (`torch.Tensor` of shape `(num_solutions,)`):
            Verifier scores V, unbounded.
        correct (`torch.Tensor` of shape `(num_solutions,)`):
            Whether the final answer is correct.
        sneaky (`torch.Tensor` of shape `(num_solutions,)`):
            True for the sneaky role, False for the helpful one.
        group_size (`int`):
            Each `group_size` consecutive solutions are one group: one problem, one role.
        answered (`torch.Tensor` of shape `(num_solutions,)`, *optional*):
            False for a solution without a final answer. It still counts in its group's mean.

    Returns:
        `torch.Tensor` of shape `(num_solutions,)`: rewards, unbounded.

    Raises:
        ValueError: as for [`~pvg_hf.rewards.inputs.read_solutions`].
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
    Standardised SRC (Kim & Lee 2026).

    With v' = (V - mean) / std over the group (population std; 0 in a group without spread), the reward is v' if v' > 0
    and the solution plays its role, else -2, also without a final answer.

    Args:
        scores, correct, sneaky, group_size, answered:
            As in [`signed_relative_convincingness`].

    Returns:
        `torch.Tensor` of shape `(num_solutions,)`: rewards, -2 or in (0, sqrt(group_size - 1)].

    Raises:
        ValueError: as for [`~pvg_hf.rewards.inputs.read_solutions`].
    """
    solutions = read_solutions(scores, correct, sneaky, group_size=group_size, answered=answered)
    deviations, stds = _group_statistics(solutions.scores, group_size)
    is_paid = solutions.aligned & (
        deviations > TOLERANCE
    )  # never in a group without spread, so there is no division by 0
    return torch.where(is_paid, deviations / stds, -2.0)


def _group_statistics(scores: torch.Tensor, group_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Return each score's deviation from its group's mean, and its group's population std.

    Both have shape `(num_solutions,)` and the scores' type and device. They are computed in float64, in which the
    rounding error of a mean is far below [`TOLERANCE`].
    """
    # On the CPU, since MPS has no float64 and a GPU may sum in any order.
    groups = scores.to("cpu", torch.float64).view(len(scores) // group_size, group_size)
    deviations = groups - groups.mean(dim=1, keepdim=True)
    stds = deviations.square().mean(dim=1, keepdim=True).sqrt().expand_as(deviations)
    return deviations.flatten().to(scores), stds.flatten().to(scores)
