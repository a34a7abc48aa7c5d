"""Columns of the pool, outcomes of solutions, and names of their sources."""

from collections.abc import Mapping
from typing import Any

from datasets import Features, Value

from pvg_hf.core.disk_names import BASE_ROUND, round_name
from pvg_hf.core.roles import Outcome, Role
from pvg_hf.tasks.base import Grade, Problem, Task, final_grade, outcome_of

# `correct` and `outcome` are the truth; `label`, `feedback` and `is_noise_flagged` describe what players are shown.
SOLUTION_COLUMNS: dict[str, Value] = {
    "problem_id": Value("string"),
    "problem": Value("string"),
    "reference": Value("string"),
    "part": Value("string"),
    "role": Value("string"),
    "round_index": Value("int32"),
    "prover": Value("string"),
    "solution": Value("string"),
    "answer": Value("string"),
    "correct": Value("bool"),
    "label": Value("int8"),
    "outcome": Value("string"),
    "feedback": Value("string"),
    "is_noise_flagged": Value("bool"),
    "score": Value("float64"),
    "sample_index": Value("int32"),
    "num_tokens": Value("int32"),
    "is_truncated": Value("bool"),
}
"""Columns of every pool, whatever its task."""

FAILED_OUTCOMES = frozenset({Outcome.NO_ANSWER, Outcome.TRUNCATED, Outcome.UNCERTIFIED})
"""Outcomes of solutions that are kept and counted but never used in pairs: they show a failure, not a mistake."""

OUTCOME_WORDS = {
    Outcome.VERIFIED: "correct",
    Outcome.PROOF_INVALID: "wrong",
    Outcome.NO_ANSWER: "no answer",
    Outcome.TRUNCATED: "cut",
    Outcome.UNCERTIFIED: "uncertified",
}
"""Outcomes of solutions in words, in the order in which they are listed."""


def list_outcomes(counts: Mapping[Outcome, int] | Mapping[str, int]) -> list[Outcome]:
    """
    Return the outcomes to list for counts by outcome: all that a solution can have, but `UNCERTIFIED` only if it
    occurs.
    """
    return [outcome for outcome in OUTCOME_WORDS if outcome != Outcome.UNCERTIFIED or counts.get(outcome)]


def describe_outcomes(counts: Mapping[str, int]) -> str:
    """Describe the shares of outcomes, e.g. `6.2 % correct, 51.8 % wrong, 31.0 % no answer, 11.0 % cut`."""
    total = max(1, sum(counts.values()))
    return ", ".join(
        f"{100 * counts.get(outcome, 0) / total:.1f} % {OUTCOME_WORDS[outcome]}" for outcome in list_outcomes(counts)
    )


def solution_features(task: Task) -> Features:
    """
    Return the columns of a task's pool: the common ones, then the task's `columns`, then its `detail_columns`.

    Raises:
        ValueError: if the task uses the name of another column.
    """
    own = [*task.columns, *task.detail_columns]
    taken = sorted(name for name in set(own) if name in SOLUTION_COLUMNS or own.count(name) > 1)
    if taken:
        raise ValueError(
            f"Task `{task.name}` names the columns {taken} in `columns` or `detail_columns`, but a pool has them "
            f"already. Rename them; taken are {list(SOLUTION_COLUMNS)} and each other's names."
        )
    return Features({**SOLUTION_COLUMNS, **task.columns, **task.detail_columns})


def make_solution(
    *,
    task: Task,
    problem: Problem,
    part: str,
    role: Role | str,
    round_index: int,
    prover: str,
    solution: str,
    grade: Grade,
    label: int | None,
    sample_index: int,
    num_tokens: int | None,
    is_truncated: bool,
    score: float | None = None,
) -> dict[str, Any]:
    """
    Build a row of the pool.

    Args:
        task ([`~pvg_hf.tasks.base.Task`]):
            The task, which defines the columns in addition to the common ones.
        problem (`Mapping[str, Any]`):
            The problem with the task's `columns`.
        part (`str`):
            The part of the split that contains the problem.
        role ([`~pvg_hf.core.roles.Role`]), round_index (`int`), prover (`str`):
            Writer of the solution: its role, round (-1 = before the first) and name.
        solution (`str`), grade ([`~pvg_hf.tasks.base.Grade`]):
            The whole text and its grade without label noise; the row contains the task's `solution_in` the text, and
            the [`final_grade`].
        label (`int`, *optional*):
            Label shown to the verifier: 1 correct, 0 incorrect, `None` if the checker abstained.
        sample_index (`int`):
            Distinguishes the solutions of one problem, role and round.
        num_tokens (`int`, *optional*):
            Length in the prover's tokens; `None` if unknown (imported solutions).
        is_truncated (`bool`):
            Whether the text was truncated at the prover's length limit.
        score (`float`, *optional*):
            Score by the verifier of the same round.

    Raises:
        ValueError: for an unknown label or role.
    """
    if label not in (0, 1, None):
        raise ValueError(f"`label` must be 1 (correct), 0 (incorrect) or None (abstained); got {label!r}.")
    grade = final_grade(grade, is_truncated)
    return {
        "problem_id": problem["problem_id"],
        "problem": problem["problem"],
        "reference": problem["reference"],
        "part": part,
        "role": Role(role).value,
        "round_index": round_index,
        "prover": prover,
        "solution": task.solution_in(solution),
        "answer": grade.answer,
        "correct": grade.correct,
        "label": label,
        "outcome": outcome_of(grade, is_truncated).value,
        # The truth; a noisy checker's outcome replaces it when the labels of a round are made.
        "feedback": outcome_of(grade, is_truncated).value,
        "is_noise_flagged": False,
        "score": score,
        "sample_index": sample_index,
        "num_tokens": num_tokens,
        "is_truncated": is_truncated,
        **{name: problem[name] for name in task.columns},
        **{name: grade.detail[name] for name in task.detail_columns},
    }


def environment_name(round_index: int, role: Role | str) -> str:
    """Return the environment of a solution: `base`, `round-000-helpful`, `round-000-sneaky`, ..."""
    return "base" if round_index == BASE_ROUND else f"{round_name(round_index)}-{Role(role).value}"
