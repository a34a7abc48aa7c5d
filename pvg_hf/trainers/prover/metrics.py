"""Metrics of a prover's training step, by role and correctness (compare Kirchner et al. 2024, fig. 4 and 5)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from pvg_hf.core.acceptance import Acceptance
from pvg_hf.core.roles import GAME_ROLES

OPTIONAL_METRICS = frozenset(
    [
        *(f"judged_accuracy/{role.value}" for role in GAME_ROLES),
        *(
            f"{name}/{role.value}_{kind}"
            for name in ("score", "num_scored")
            for role in GAME_ROLES
            for kind in ("correct", "incorrect")
        ),
        "exploit_rate",
        "score_correctness_correlation",
        "score_gap",
    ]
)
"""Metrics without a value in a step that has no solution of their kind."""


OBSERVED = "observed/"
"""Prefix of metrics of the labels that the reward uses, if these are not the truth."""

_OF_LABELS = (
    "accuracy/",
    "judged_accuracy/",
    "score/",
    "num_scored/",
)  # prefixes of metrics that depend on labels, besides the next

_ALSO_OF_LABELS = frozenset({"exploit_rate", "score_correctness_correlation", "score_gap", "valid_sneaky"})


def is_of_labels(metric: str) -> bool:
    """Whether a metric of [`role_metrics`] depends on which solutions are correct."""
    return metric.startswith(_OF_LABELS) or metric in _ALSO_OF_LABELS


def observed_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return a step's metrics without the truth: those of the observed labels in the place of those of clean ones."""
    unlabelled = {k: v for k, v in metrics.items() if not is_of_labels(k) and not k.startswith(OBSERVED)}
    observed = {name.removeprefix(OBSERVED): value for name, value in metrics.items() if name.startswith(OBSERVED)}
    return {**unlabelled, **observed}


@dataclass(frozen=True)
class RoleSignals:
    """
    Solutions of a step, over all processes.

    Args:
        scores: shape `(N,)`. Verifier scores, unbounded.
        correct, answered, failed, sneaky, truncated: shape `(N,)`. Booleans: clean correctness; whether there is a
            final answer; whether the solution failed (truncated, without an answer, or uncertified:
            [`~pvg_hf.data.schema.FAILED_OUTCOMES`]); whether the role is sneaky; whether the solution reached its
            maximum length.
        further: What else the reward reads of the grades, by name; NaN where a grade does not state it.
    """

    scores: torch.Tensor
    correct: torch.Tensor
    answered: torch.Tensor
    failed: torch.Tensor
    sneaky: torch.Tensor
    truncated: torch.Tensor
    further: Mapping[str, torch.Tensor] = field(default_factory=dict)

    def with_labels(self, labels: torch.Tensor) -> "RoleSignals":
        """Return the solutions with a label (1 or 0; NaN: none), as if it were the truth."""
        known = ~labels.isnan()
        names = ("scores", "answered", "failed", "sneaky", "truncated")
        return RoleSignals(correct=labels[known] == 1, **{name: getattr(self, name)[known] for name in names})


def role_metrics(signals: RoleSignals, rewards: torch.Tensor, threshold: float | None = None) -> dict[str, float]:
    """
    Compute means over a step's solutions. A metric without a solution is omitted.

    A failed solution counts as incorrect in the accuracies. But its score says nothing about a mistake, so metrics of
    scores, and the judged accuracy, exclude it.

    Args:
        rewards: shape `(N,)`. Role rewards; NaN for a solution without one, which means ignore.
        threshold: Lowest score that the verifier accepts.
    Returns: over all solutions `accuracy/ROLE`, `reward/ROLE`, `truncated/ROLE`, `unanswered/ROLE`, `failed/ROLE` and
        `valid_sneaky` (share of sneaky solutions that did not fail and are incorrect); over those that did not fail
        `judged_accuracy/ROLE`, `score/ROLE_correct`, `score/ROLE_incorrect` with the numbers of such solutions
        (`num_scored/...`), `score_gap` (mean score of helpful correct minus that of sneaky incorrect solutions),
        `exploit_rate` (share of sneaky incorrect solutions accepted) and `score_correctness_correlation` (of ranks, in
        [-1, 1]).
    """
    correct, judged = signals.correct.bool(), ~signals.failed.bool()
    # metric -> (values, mask of the solutions that count)
    cells: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    for name, role in (("helpful", ~signals.sneaky.bool()), ("sneaky", signals.sneaky.bool())):
        cells |= {
            f"accuracy/{name}": (correct, role),
            f"judged_accuracy/{name}": (correct, role & judged),
            f"reward/{name}": (rewards, role & ~rewards.isnan()),
            f"score/{name}_correct": (signals.scores, role & judged & correct),
            f"score/{name}_incorrect": (signals.scores, role & judged & ~correct),
            f"truncated/{name}": (signals.truncated, role),
            f"unanswered/{name}": (~signals.answered.bool(), role),
            f"failed/{name}": (~judged, role),
        }
    if threshold is not None:
        cells["exploit_rate"] = (
            Acceptance(threshold).accepts(signals.scores),
            signals.sneaky.bool() & judged & ~correct,
        )
    cells["valid_sneaky"] = (judged & ~correct, signals.sneaky.bool())
    metrics = {key: values[mask].float().mean().item() for key, (values, mask) in cells.items() if mask.any()}
    for key, (_, mask) in cells.items():
        if key.startswith("score/") and mask.any():
            metrics[key.replace("score/", "num_scored/")] = float(mask.sum())
    if {"score/helpful_correct", "score/sneaky_incorrect"} <= metrics.keys():
        metrics["score_gap"] = metrics["score/helpful_correct"] - metrics["score/sneaky_incorrect"]
    if 0 < correct[judged].sum() < judged.sum():
        metrics["score_correctness_correlation"] = _rank_correlation(signals.scores[judged], correct[judged])
    return metrics


def _rank_correlation(scores: torch.Tensor, correct: torch.Tensor) -> float:
    """Spearman's correlation of scores and correctness; equal scores get the mean of their ranks."""
    ordered = scores.sort().values
    ranks = (torch.searchsorted(ordered, scores) + torch.searchsorted(ordered, scores, right=True)).double()  # doubled
    pair = torch.stack([ranks, correct.double()])
    return 0.0 if ranks.std() == 0 else torch.corrcoef(pair)[0, 1].item()
