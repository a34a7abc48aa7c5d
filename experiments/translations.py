"""The decoupled form of the game: a solver's solutions, and the translations of them that a game on them learned."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from experiments.translation import SOLVER_COLUMN, TranslationTask, keep_answer
from pvg_hf.core.files import write_text
from pvg_hf.core.roles import Role
from pvg_hf.data.pool import load_pool
from pvg_hf.experimental.judging.judged_round import JudgedRun
from pvg_hf.run.file_names import pool_test_file
from pvg_hf.sampling.sampler import sample_solutions


@dataclass(frozen=True)
class Translation:
    """
    What a solver and its translator give as the solution to a problem.

    Args:
        problem_id (`str`):
            The problem.
        solution (`str`):
            The translation, or the solver's own solution if the translation has another answer.
        is_translated (`bool`):
            Whether it is the translation.
    """

    problem_id: str
    solution: str
    is_translated: bool


def write_solver_solutions(run: JudgedRun, round_index: int, path: Path) -> int:
    """
    Write one solution by a round's helpful prover to each problem of its run, as JSON lines for a translation game.

    Returns:
        `int`: the number of solutions.
    """
    judged = run.round(round_index)
    problems = [problem for part in judged.problems.parts.values() for problem in part.to_list()]
    rows = sample_solutions(
        judged.players.role_sampler(Role.HELPFUL, round_index),
        judged.problems.prompts,
        problems,
        Role.HELPFUL,
        num_samples=1,
        seed=judged.seed("solver"),
        round_index=round_index,
    )
    _write_lines(path, [{"problem_id": row["problem_id"], "solution": row["solution"]} for row in rows])
    return len(rows)


def translated_solutions(run: JudgedRun, round_index: int) -> list[Translation]:
    """
    Choose a solution per test problem of a translation game: a translation only if it keeps the answer.

    The translation is the first one of the problem that the round's helpful prover wrote when the round was minted.

    Raises:
        ValueError: if the run is a game on another task.
    """
    task = run.problems.task
    if not isinstance(task, TranslationTask):
        raise ValueError(f"The run's task is `{task.name}`; translations are those of a translation game.")
    rows = load_pool([run.folder.pool(round_index) / pool_test_file(Role.HELPFUL)]).to_pandas()
    return [_translation(task, row) for _, row in rows.drop_duplicates("problem_id").iterrows()]


def _translation(task: TranslationTask, row: pd.Series) -> Translation:
    solution = keep_answer(task, row, row["solution"])
    return Translation(row["problem_id"], solution, is_translated=solution != row[SOLVER_COLUMN])


def write_translations(translations: Sequence[Translation], path: Path) -> None:
    """Write solutions as JSON lines."""
    _write_lines(path, [vars(translation) for translation in translations])


def _write_lines(path: Path, rows: Sequence[dict]) -> None:
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
