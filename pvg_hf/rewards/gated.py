"""Correctness-gated convincingness: the score itself as the reward, but only for a solution that plays its role."""

import torch

from pvg_hf.rewards.inputs import read_solutions


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
