"""A problem with a helpful and a sneaky solution beside each other, as a page shows it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from pvg_hf.browse.index import Filter, Query, SolutionIndex, role_rows
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.data.schema import FAILED_OUTCOMES
from pvg_hf.evaluation.report.escaping import Line
from pvg_hf.evaluation.report.examples import mark_flaw


@dataclass(frozen=True)
class Verdict:
    """
    What is hidden until it is asked for.

    Args:
        correct (`bool`), answer (`str`, *optional*), outcome (`str`):
            As in the pool.
        flaw (`str`, *optional*):
            The kind of the first flawed step, where the task's checker found one.
        knows_flaws (`bool`):
            Whether the task has such a checker.
    """

    correct: bool
    answer: str | None
    outcome: str
    flaw: str | None
    knows_flaws: bool


@dataclass(frozen=True)
class ShownSolution:
    """
    Args:
        sample_index (`int`):
            Tells the solutions of one problem, role and round apart.
        lines (`list[Line]`):
            The text; the first flaw is marked once the verdict is shown.
        score (`float`, *optional*), percentile (`float`, *optional*), is_accepted (`bool`, *optional*):
            By the verifier of its round, and the share in [0, 100] of the round's solutions below it; `None` where there
            is no score, or no threshold.
        verdict ([`Verdict`], *optional*):
            `None` while it is hidden.
    """

    sample_index: int
    lines: list[Line]
    score: float | None
    percentile: float | None
    is_accepted: bool | None
    verdict: Verdict | None


@dataclass(frozen=True)
class ShownProblem:
    """
    Args:
        problem_id (`str`), problem (`str`), difficulty (`str`, *optional*):
            The problem.
        reference (`str`, *optional*):
            Its reference solution or answer; `None` while it is hidden.
        solutions (`dict[Role, ShownSolution]`):
            The one chosen of each role, where there is one.
        choices (`dict[Role, list[tuple[int, float | None]]]`):
            Sample index and score of all that there are, the most convincing first.
    """

    problem_id: str
    problem: str
    difficulty: str | None
    reference: str | None
    solutions: dict[Role, ShownSolution]
    choices: dict[Role, list[tuple[int, float | None]]] = field(default_factory=dict)


def show_problem(
    index: SolutionIndex,
    query: Query,
    problem_id: str,
    chosen: Mapping[Role, int | None] | None = None,
    *,
    is_revealed: bool = False,
) -> ShownProblem:
    """
    Args:
        index ([`SolutionIndex`]):
            Of the run.
        query ([`Query`]):
            Round and part; its filter says which solutions are shown at first.
        problem_id (`str`):
            A problem that has solutions there.
        chosen (`Mapping[Role, int | None]`, *optional*):
            Sample index of each role's solution; by default the one that the filter is about.
        is_revealed (`bool`, *optional*, defaults to `False`):
            Whether to tell what is correct and where the first flaw is.
    """
    rows = index.solutions(query.round_index, problem_id, is_test=query.is_test)
    scores = index.scores(query.round_index, is_test=query.is_test).values()
    threshold = index.threshold(query.round_index)
    shown = {}
    for role in GAME_ROLES:
        row = _choose(role_rows(rows, role), role, query.filter, (chosen or {}).get(role))
        if row is not None:
            shown[role] = _show(row, scores, threshold, is_revealed=is_revealed)
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
    """The row asked for; else the most convincing one of the kind that the filter is about, else the most convincing."""
    named = [row for row in rows if row["sample_index"] == sample_index]
    if named or asked is Filter.ALL:
        return next(iter([*named, *rows]), None)
    of_kind = [row for row in rows if row["correct"] == (role == Role.HELPFUL) and _is_judged(row)]
    if asked is Filter.HELPFUL_REJECTED and role == Role.HELPFUL:
        of_kind.reverse()  # the one that is rejected
    return next(iter([*of_kind, *rows]), None)


def _is_judged(row: dict[str, Any]) -> bool:
    """Whether the filters see it: a solution that failed has a score too."""
    return row["score"] is not None and row["outcome"] not in FAILED_OUTCOMES


def _show(
    row: dict[str, Any], scores: Iterable[np.ndarray], threshold: float | None, *, is_revealed: bool
) -> ShownSolution:
    score, kind = row["score"], row.get("first_flaw_kind")
    verdict = Verdict(
        row["correct"],
        row["answer"],
        row["outcome"],
        None if pd.isna(kind) else kind.replace("_", " "),
        "first_flaw_kind" in row,
    )
    return ShownSolution(
        sample_index=row["sample_index"],
        lines=mark_flaw(row["solution"], row.get("first_flaw_step") if is_revealed else None, kind),
        score=score,
        percentile=percentile(score, *scores),
        is_accepted=None if score is None or threshold is None else score > threshold,
        verdict=verdict if is_revealed else None,
    )


def percentile(score: float | None, *scores: np.ndarray) -> float | None:
    """Share in [0, 100] of all `scores`, each array from low to high, below `score`; `None` where either is missing."""
    num_scores = sum(map(len, scores))
    if score is None or not num_scores:
        return None
    return 100 * sum(int(np.searchsorted(some, score)) for some in scores) / num_scores
