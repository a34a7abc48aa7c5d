"""Prepares a problem with a helpful and a sneaky solution for a page that shows them side by side."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from pvg_hf.app.index import Filter, Query, SolutionIndex, role_rows
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.data.schema import FAILED_OUTCOMES
from pvg_hf.evaluation.solution_kinds import ShownText, show_text_of
from pvg_hf.report.escaping import Line
from pvg_hf.report.examples import mark_flaw


@dataclass(frozen=True)
class GroundTruth:
    """Ground truth about a solution, hidden until the reader asks for it."""

    correct: bool
    answer: str | None
    outcome: str
    flaw: str | None  # kind of the first flawed step, if the task's checker found one
    knows_flaws: bool  # whether the task has such a checker


@dataclass(frozen=True)
class ShownSolution:
    """A solution, ready to be shown."""

    sample_index: int  # among the solutions of one problem, role and round
    lines: list[Line]  # the first flaw is marked once the verdict is shown
    score: float | None  # by the verifier of its round
    percentile: float | None  # percentage in [0, 100] of the round's solutions with a lower score
    is_accepted: bool | None  # whether the score is above the threshold; `None` if either is missing
    verdict: GroundTruth | None  # `None` while it is hidden
    special: ShownText | None = None  # how a solution of a registered kind, such as a program, is shown instead


@dataclass(frozen=True)
class ShownProblem:
    """A problem with one solution per role, if any, ready to be shown."""

    problem_id: str
    problem: str
    difficulty: str | None
    reference: str | None  # solution or answer; `None` while it is hidden
    solutions: dict[Role, ShownSolution]
    # Sample index and score of all solutions of each role, the most convincing first.
    choices: dict[Role, list[tuple[int, float | None]]] = field(default_factory=dict)

    @property
    def special_reference(self) -> Markup | None:
        """The reference of a problem whose solutions are of a registered kind, as it is shown."""
        shown = (solution.special.reference for solution in self.solutions.values() if solution.special)
        return next(shown, None)


def show_problem(
    index: SolutionIndex,
    query: Query,
    problem_id: str,
    chosen: Mapping[Role, int | None] | None = None,
    *,
    is_revealed: bool = False,
) -> ShownProblem:
    """
    Prepare a problem, which has solutions in the query's round and part, for a page.

    `chosen` has the sample index of each role's solution; by default it is the solution that the query's filter is
    about. With `is_revealed`, which solutions are correct and where the first flaw is are shown.
    """
    rows = index.solutions(query.round_index, problem_id, is_test=query.is_test)
    scores = index.scores(query.round_index, is_test=query.is_test).values()
    threshold = index.threshold(query.round_index)
    honest = [row["answer"] for row in role_rows(rows, Role.HELPFUL) if row["correct"]]
    shown = {}
    for role in GAME_ROLES:
        row = _choose(role_rows(rows, role), role, query.filter, (chosen or {}).get(role))
        if row is not None:
            shown[role] = _show(row, scores, threshold, honest, is_revealed=is_revealed)
    difficulty = rows[0].get("difficulty")
    return ShownProblem(
        problem_id=problem_id,
        problem=rows[0]["problem"],
        difficulty=None if difficulty is None else str(difficulty),
        reference=rows[0]["reference"] if is_revealed else None,
        solutions=shown,
        choices={role: [(row["sample_index"], row["score"]) for row in role_rows(rows, role)] for role in GAME_ROLES},
    )


def _choose(
    rows: Sequence[dict[str, Any]], role: Role, asked: Filter, sample_index: int | None
) -> dict[str, Any] | None:
    """
    Return the requested row, if any, else the most convincing one that the filter selects, else the most convincing of
    all.
    """
    named = [row for row in rows if row["sample_index"] == sample_index]
    if named or asked is Filter.ALL:
        return next(iter([*named, *rows]), None)
    of_kind = [row for row in rows if row["correct"] == (role == Role.HELPFUL) and _is_judged(row)]
    if asked is Filter.HELPFUL_REJECTED and role == Role.HELPFUL:
        of_kind.reverse()  # least convincing first: this one is rejected
    return next(iter([*of_kind, *rows]), None)


def _is_judged(row: dict[str, Any]) -> bool:
    # A score alone is not enough: failed solutions are scored, too, but filters ignore them.
    return row["score"] is not None and row["outcome"] not in FAILED_OUTCOMES


def _show(
    row: dict[str, Any],
    scores: Iterable[np.ndarray],
    threshold: float | None,
    honest: Sequence[str],
    *,
    is_revealed: bool,
) -> ShownSolution:
    score, kind = row["score"], row.get("first_flaw_kind")
    verdict = GroundTruth(
        row["correct"],
        row["answer"],
        row["outcome"],
        None if kind is None or pd.isna(kind) else kind.replace("_", " "),
        "first_flaw_kind" in row,
    )
    return ShownSolution(
        sample_index=row["sample_index"],
        lines=mark_flaw(row["solution"], row.get("first_flaw_step") if is_revealed else None, kind),
        score=score,
        percentile=percentile(score, *scores),
        is_accepted=None if score is None or threshold is None else score > threshold,
        verdict=verdict if is_revealed else None,
        special=show_text_of(row, honest),
    )


def percentile(score: float | None, *scores: np.ndarray) -> float | None:
    """
    Percentage in [0, 100] of all `scores` (each array sorted in ascending order) below `score`; `None` if either is
    missing.
    """
    num_scores = sum(map(len, scores))
    if score is None or not num_scores:
        return None
    return 100 * sum(int(np.searchsorted(some, score)) for some in scores) / num_scores
