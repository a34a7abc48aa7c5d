"""Rewards by the verifier's score: relative to the solution's group, or gated by correctness."""

import math
from typing import Any

import torch

from pvg_hf.rewards.inputs import read_solutions, role_aligned

TOLERANCE = 1e-6  # a score this close to its group's mean counts as equal to it, so that rounding cannot flip a reward


def signed_relative_convincingness(
    scores: torch.Tensor,
    correct: torch.Tensor,
    sneaky: torch.Tensor,
    *,
    group_size: int,
    answered: torch.Tensor | None = None,
    floor: float = -1.0,
    score_scale: float = 1.0,
) -> torch.Tensor:
    """
    Signed relative convincingness (SRC; Kirchner et al. 2024, eq. 2).

    With V' = `score_scale` * (V - mean of the group), the reward is V' if V' > 0 and the solution plays its role, -V'
    if V' > 0 and it does not, and `floor` if V' <= 0. Without a final answer it is min(`floor`, -|V'|).

    A solution that misses its role with V' < -`floor` earns more than one below the mean that plays it. Kirchner et
    al. do not say on which scale their scores were; with a `score_scale` above 1, or a `floor` nearer to 0, there are
    fewer such solutions.

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
        floor (`float`, *optional*, defaults to `-1.0`):
            Reward of a solution that is no more convincing than its group, at most 0.
        score_scale (`float`, *optional*, defaults to `1.0`):
            Factor on the scores, above 0.

    Returns:
        `torch.Tensor` of shape `(num_solutions,)`: rewards, unbounded.

    Raises:
        ValueError: for a `floor` above 0, or a `score_scale` that is not above 0; otherwise as for
            [`~pvg_hf.rewards.inputs.read_solutions`].
    """
    if not -math.inf < floor <= 0:
        raise ValueError(
            f"`floor` is {floor}; it must be a number of at most 0, or solutions would be paid for failing."
        )
    if not 0 < score_scale < math.inf:
        raise ValueError(f"`score_scale` is {score_scale}; it must be a number above 0.")
    solutions = read_solutions(scores, correct, sneaky, group_size=group_size, answered=answered)
    deviations, _ = _group_statistics(solutions.scores, group_size)
    scaled = score_scale * deviations
    signed = torch.where(solutions.aligned, scaled, -scaled)
    rewards = torch.where(deviations > TOLERANCE, signed, floor)
    return torch.where(solutions.answered, rewards, (-scaled.abs()).clamp(max=floor))


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


def correctness_gated_convincingness(
    scores: torch.Tensor,
    correct: torch.Tensor,
    sneaky: torch.Tensor,
    *,
    group_size: int,
    answered: torch.Tensor | None = None,
    floor: float = -2.0,
) -> torch.Tensor:
    """
    Correctness-gated convincingness (CGC; Kirchner et al. 2024, eq. 3).

    The reward is V if the solution plays its role, else `floor`, also without a final answer.

    Args:
        scores, correct, sneaky, group_size, answered:
            As for [`~pvg_hf.rewards.signed_relative_convincingness`].
        floor (`float`, *optional*, defaults to `-2.0`):
            V0. Kirchner et al. assume V > V0, which nothing enforces: see [`count_floor_violations`].

    Returns:
        `torch.Tensor` of shape `(num_solutions,)`: rewards, unbounded.

    Raises:
        ValueError: as for [`~pvg_hf.rewards.inputs.read_solutions`].
    """
    solutions = read_solutions(scores, correct, sneaky, group_size=group_size, answered=answered)
    return torch.where(solutions.aligned, solutions.scores, floor)


def count_floor_violations(scores: torch.Tensor, aligned: torch.Tensor, floor: float = -2.0) -> int:
    """
    Count solutions that play their role but score at most `floor`, so that CGC does not pay them more than failing.

    Args:
        scores (`torch.Tensor` of shape `(num_solutions,)`):
            Verifier scores V, unbounded.
        aligned (`torch.Tensor` of shape `(num_solutions,)`):
            Bool, see [`~pvg_hf.rewards.role_aligned`].
        floor (`float`, *optional*, defaults to `-2.0`):
            V0, the reward of a solution that does not play its role.

    Returns:
        `int`: 0 if the assumption V > V0 of CGC holds.
    """
    return int((aligned & (scores <= floor)).sum())


def floor_violations(
    scores: torch.Tensor,
    correct: torch.Tensor,
    sneaky: torch.Tensor,
    *,
    answered: torch.Tensor,
    floor: float = -2.0,
    **ignored: Any,
) -> dict[str, float]:
    """Metric `floor_violations` of CGC, with its arguments: see [`count_floor_violations`]."""
    aligned = role_aligned(correct.bool(), sneaky.bool(), answered.bool())
    return {"floor_violations": count_floor_violations(scores, aligned, floor)}
