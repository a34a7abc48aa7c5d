"""Figures of a prover's step, by role and correctness (K24, fig. 4 and 5; protocols of the dynamics)."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class RoleSignals:
    """
    What is known of a step's solutions, over all processes.

    Args:
        scores (`torch.Tensor` of shape `(N,)`):
            Verifier scores, unbounded.
        correct, answered, sneaky, truncated (`torch.Tensor` of shape `(N,)`):
            Booleans: clean correctness; whether there is a final answer; whether the role is sneaky; whether the
            solution reached its maximum length.
    """

    scores: torch.Tensor
    correct: torch.Tensor
    answered: torch.Tensor
    sneaky: torch.Tensor
    truncated: torch.Tensor


def role_metrics(signals: RoleSignals, rewards: torch.Tensor, threshold: float | None = None) -> dict[str, float]:
    """
    Means over a step's solutions. A cell without a solution has no key.

    Args:
        signals (`RoleSignals`):
            Over all processes.
        rewards (`torch.Tensor` of shape `(N,)`):
            Role rewards.
        threshold (`float`, *optional*):
            Score above which the verifier accepts.

    Returns:
        `dict[str, float]`: `accuracy/ROLE`, `reward/ROLE`, `score/ROLE_correct`, `score/ROLE_incorrect`,
        `truncated/ROLE`, `unanswered/ROLE`, `valid_sneaky` (share of sneaky solutions that are answered and incorrect),
        `score_gap` (mean score of helpful correct minus that of sneaky incorrect solutions), `exploit_rate` (share of
        sneaky incorrect solutions above the threshold) and `score_correctness_correlation` (of ranks, in [-1, 1]).
    """
    correct, answered, truncated = signals.correct.bool(), signals.answered.bool(), signals.truncated.bool()
    cells: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    for name, role in (("helpful", ~signals.sneaky.bool()), ("sneaky", signals.sneaky.bool())):
        cells |= {
            f"accuracy/{name}": (correct, role),
            f"reward/{name}": (rewards, role),
            f"score/{name}_correct": (signals.scores, role & correct),
            f"score/{name}_incorrect": (signals.scores, role & ~correct),
            f"truncated/{name}": (truncated, role),
            f"unanswered/{name}": (~answered, role),
        }
    if threshold is not None:
        cells["exploit_rate"] = (signals.scores > threshold, signals.sneaky.bool() & ~correct)
    cells["valid_sneaky"] = (answered & ~correct, signals.sneaky.bool())
    metrics = {key: values[mask].float().mean().item() for key, (values, mask) in cells.items() if mask.any()}
    if {"score/helpful_correct", "score/sneaky_incorrect"} <= metrics.keys():
        metrics["score_gap"] = metrics["score/helpful_correct"] - metrics["score/sneaky_incorrect"]
    if correct.any() and not correct.all():
        metrics["score_correctness_correlation"] = _rank_correlation(signals.scores, correct)
    return metrics


def _rank_correlation(scores: torch.Tensor, correct: torch.Tensor) -> float:
    """Spearman's correlation of scores and correctness; equal scores share the mean of their ranks."""
    ordered = scores.sort().values
    ranks = (torch.searchsorted(ordered, scores) + torch.searchsorted(ordered, scores, right=True)).double()  # twice
    pair = torch.stack([ranks, correct.double()])
    return 0.0 if ranks.std() == 0 else torch.corrcoef(pair)[0, 1].item()
