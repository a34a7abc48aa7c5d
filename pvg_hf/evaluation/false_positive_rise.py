"""
Rise of false positives: how much more often a checker accepts wrong solutions early in a prover's training than before
it.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pvg_hf.core.figure import Figure
from pvg_hf.evaluation.intervals import rate_by_problem, rate_difference


class WrongSolutions(NamedTuple):
    """
    The wrong solutions to one problem in one step of a training, as one checker judged them.

    Args:
        step (`int`):
            Number of steps that the prover had been trained before it wrote them; 0 is before the training.
        problem_id (`str`):
            The problem.
        checker (`str`):
            `labels` (the observed labels that the reward uses) or `verifier` (scores above the threshold).
        role (`str`):
            Role of the prover.
        wrong (`int`), accepted (`int`):
            Number of wrong solutions with a verdict, and of those that were accepted.
    """

    step: int
    problem_id: str
    checker: str
    role: str
    wrong: int
    accepted: int


@dataclass(frozen=True)
class FalsePositiveRise:
    """
    Share of wrong solutions that a checker accepts, before training and in its first part.

    Args:
        checker (`str`), role (`str`):
            As in [`WrongSolutions`].
        before ([`~pvg_hf.core.figure.Figure`]), early ([`~pvg_hf.core.figure.Figure`]):
            Shares of the solutions written before the first step, and of those written in the first part.
        rise ([`~pvg_hf.core.figure.Figure`]):
            Their difference; its interval takes the solutions to a problem as dependent.
    """

    checker: str
    role: str
    before: Figure
    early: Figure
    rise: Figure

    @property
    def name(self) -> str:
        return f"{self.checker}_{self.role}"

    def to_dict(self) -> dict[str, Any]:
        figures = {name: getattr(self, name).to_dict() for name in ("before", "early", "rise")}
        return {"checker": self.checker, "role": self.role, **figures}


def last_early_step(num_steps: int, share: float, steps_per_batch: int = 1) -> int:
    """
    Return the last step whose solutions count as early.

    Args:
        num_steps (`int`):
            Planned steps of the training.
        share (`float`):
            The first part of the training, in (0, 1).
        steps_per_batch (`int`, defaults to 1):
            Steps for which one batch of solutions is used. At least one batch after the first is early.
    """
    return max(math.ceil(share * num_steps) - 1, steps_per_batch)


def false_positive_rises(rows: Iterable[Mapping[str, Any]]) -> list[FalsePositiveRise]:
    """
    Compare the shares of accepted wrong solutions before and early in a training.

    Args:
        rows (`Iterable[Mapping]`):
            Fields of [`WrongSolutions`], of the steps up to [`last_early_step`].

    Returns:
        `list[FalsePositiveRise]`: one per checker and role that has wrong solutions, sorted. A side without any has an
        empty figure.
    """
    cells: dict[tuple[str, str], tuple[list, list]] = {}
    for row in rows:
        sides = cells.setdefault((row["checker"], row["role"]), ([], []))
        sides[row["step"] > 0].append(row)
    return [
        FalsePositiveRise(
            *place, _share(before), _share(early), rate_difference(*_verdicts(early), *_verdicts(before))
        )
        for place, (before, early) in sorted(cells.items())
    ]


def is_collapse_expected(rise: Figure, limit: float) -> bool:
    """
    Whether a rise is at least `limit` and its interval excludes 0.

    The second condition keeps few wrong solutions from raising an alarm.
    """
    return rise.value is not None and rise.value >= limit and rise.low > 0


def _share(rows: list[Mapping[str, Any]]) -> Figure:
    return rate_by_problem(*_verdicts(rows))


def _verdicts(rows: list[Mapping[str, Any]]) -> tuple[np.ndarray, list[str]]:
    """Return 1 or 0 for each wrong solution, and its problem."""
    verdicts = [np.arange(row["wrong"]) < row["accepted"] for row in rows]
    problem_ids = [row["problem_id"] for row in rows for _ in range(row["wrong"])]
    return np.concatenate([np.zeros(0), *verdicts]), problem_ids
