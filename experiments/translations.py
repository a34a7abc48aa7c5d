"""
Decouple solving from legibility: a solver's solutions, and translations that keep their answers
(docs/reference/figures.md).

    python -m experiments.translations solve runs/quickstart solved.jsonl
    python -m experiments.translations translate runs/translator translated.jsonl

`solve` writes one solution by the run's helpful prover to each problem. A translation game then trains a translator of
them. `translate` writes that game's solutions to the test problems: a translation if it keeps the solver's answer, or
else the solver's own solution.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
from datasets import Dataset, Value

from experiments.command import run_experiment
from pvg_hf.config.trust import admit_recipe
from pvg_hf.core.data_files import read_file
from pvg_hf.core.extensions import ExtensionError
from pvg_hf.core.files import write_text
from pvg_hf.core.roles import Role
from pvg_hf.data.pool import load_pool
from pvg_hf.experimental.judging.judged_round import JudgedRun
from pvg_hf.run.console import ScriptParser
from pvg_hf.run.layout import RunFolder, pool_test_file
from pvg_hf.sampling.sampler import sample_solutions
from pvg_hf.tasks.base import Grade, Problem, Split, Task, read_problems
from pvg_hf.tasks.registry import load_task


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("step", choices=("solve", "translate"), help="what is written")
    parser.add_argument("run", type=Path, help="the folder of the solver's or the translator's run")
    parser.add_argument("output", type=Path, help="the file to write, of JSON lines")
    parser.add_argument(
        "--round", type=int, dest="round_index", metavar="K", help="a round, from 0 (default: the last one)"
    )
    arguments = parser.parse_args()

    def work() -> str:
        RunFolder.find(arguments.run)  # refuses a wrong folder
        judged = JudgedRun.open(arguments.run)
        admit_recipe(judged.recipe)
        round_index = arguments.round_index
        if round_index is None:
            round_index = max(judged.folder.rounds("pool"), default=0)
        missing = judged.round(round_index).find_missing(("prover", "mint"))
        if missing is not None:
            raise ValueError(f"Round {round_index} cannot be used: {missing}.")
        if arguments.step == "solve":
            return f"{write_solver_solutions(judged, round_index, arguments.output)} solutions in {arguments.output}"
        translations = translated_solutions(judged, round_index)
        write_translations(translations, arguments.output)
        kept = sum(translation.is_translated for translation in translations)
        return (
            f"{len(translations)} solutions in {arguments.output}: {kept} translations, {len(translations) - kept} of"
            " the solver's"
        )

    return run_experiment(work)


SOLVER_COLUMN = "solver_solution"
_SHOWN_PROBLEM = "{{ problem }}"


class TranslationTask(Task):
    """
    Translations of fixed solutions to another task's problems: the decoupled form of the game (Kirchner et al. 2024).

    A prover of this task reads a problem with a solver's solution, and is to write a legible solution with the same
    final answer. `reference` is the solver's solution, so that "correct" means "has the solver's answer". Problems to
    which the solver gave no answer, or which are not in its file, are left out.

    Args:
        task (`str`):
            The task of the problems, as in recipes. Its `grade` must compare final answers with the reference; tasks
            with certificates or tests are not supported.
        solutions (`str`):
            A file of JSON lines with `problem_id` and `solution`, one line per problem of both splits
            (`python -m experiments.translations solve RUN FILE` writes it).
        **options:
            Options of the task of the problems.

    Raises `ValueError` if the file is missing or malformed, or a prompt template of the task does not show the problem
        as `{{ problem }}`.
    """

    name = "translation"
    prompts: ClassVar = {}  # each object has those of its own task

    def __init__(self, task: str, solutions: str, **options: Any):
        self.task = load_task(task, **options)
        self.solutions = read_solver_solutions(Path(solutions))
        self.columns = {**self.task.columns, SOLVER_COLUMN: Value("string")}
        self.detail_columns = self.task.detail_columns
        self.prompts = {role: _showing_solution(role, text) for role, text in self.task.prompts.items()}
        self.stop_strings = self.task.stop_strings

    def problems(self, split: Split) -> Dataset | None:
        problems = read_problems(self.task, split)
        if problems is None:
            return None
        rows = [self.with_solution(row) for row in problems.to_list() if self.answer_of(row) is not None]
        if not rows:
            raise ValueError(f"No problem of the split `{split}` has a solution with an answer in the solver's file.")
        return Dataset.from_list(rows)

    def answer_of(self, problem: Problem) -> str | None:
        """Return the solver's final answer to a problem; `None` if it gave none."""
        solution = self.solutions.get(problem["problem_id"])
        return None if solution is None else self.task.read_answer(solution)

    def with_solution(self, problem: Problem) -> dict[str, Any]:
        """Return a problem of the task as a problem of this one, whose reference is the solver's solution."""
        solution = self.solutions[problem["problem_id"]]
        return {**problem, "reference": solution, SOLVER_COLUMN: solution}

    def grade(self, problem: Problem, solution: str) -> Grade:
        grade = self.task.grade(problem, solution)
        if grade.certified is not None or grade.test_pass_rate is not None:
            raise ExtensionError(
                f"The task `{self.task.name}` grades by a certificate or by tests; `translation` needs one that"
                " compares answers."
            )
        answer = self.task.read_answer(problem["reference"])
        return replace(grade, correct=grade.answer is not None and self.answers_equal(grade.answer, answer))

    def solution_in(self, text: str) -> str:
        return self.task.solution_in(text)

    def read_answer(self, solution: str) -> str | None:
        return self.task.read_answer(solution)

    def answers_equal(self, first: str | None, second: str | None) -> bool:
        return self.task.answers_equal(first, second)

    def problem_mistake(self, problem: str) -> str | None:
        return self.task.problem_mistake(problem)


def keep_answer(task: TranslationTask, problem: Problem, translation: str) -> str:
    """
    Return a translation if it has the solver's answer, and the solver's own solution otherwise.

    The result thus has the solver's answer whatever the translator wrote: it is correct exactly if the solver is.

    Args:
        problem: A problem of that task.
        translation: A text by a translator.
    """
    return translation if task.grade(problem, translation).correct else problem[SOLVER_COLUMN]


def read_solver_solutions(path: Path) -> dict[str, str]:
    """
    Read a solver's solutions by problem.

    Raises `ValueError` if the file is missing, a line is not an object with two texts, or a problem occurs twice.
    """
    if not path.is_file():
        raise ValueError(
            f"There is no file of a solver's solutions at {path}; "
            f"`python -m experiments.translations solve RUN {path}` writes one, where RUN is the solver's run."
        )
    found: dict[str, str] = {}
    for place, row in read_file(path, is_strict=True):
        problem_id, solution = row.get("problem_id"), row.get("solution")
        if not (isinstance(problem_id, str) and isinstance(solution, str)):
            raise ValueError(f"{place} must have the texts `problem_id` and `solution`; it is {row!r:.80}.")
        if problem_id in found:
            raise ValueError(f"{place} has a second solution to the problem `{problem_id}`.")
        found[problem_id] = solution
    return found


def _showing_solution(role: Role, template: str) -> str:
    """Add the solver's solution below the problem."""
    before, shown, after = template.rpartition(_SHOWN_PROBLEM)
    if not shown:
        raise ValueError(
            f"The prompt template of role `{role}` does not show the problem as `{_SHOWN_PROBLEM}`, so that the"
            " solver's solution has no place in it."
        )
    return f"{before}{shown}\n{{{{ {SOLVER_COLUMN} }}}}{after}"


@dataclass(frozen=True)
class Translation:
    """
    What a solver and its translator give as the solution to a problem.

    Args:
        solution: The translation, or the solver's own solution if the translation has another answer.
        is_translated: Whether it is the translation.
    """

    problem_id: str
    solution: str
    is_translated: bool


def write_solver_solutions(run: JudgedRun, round_index: int, path: Path) -> int:
    """
    Write one solution by a round's helpful prover to each problem of its run, as JSON lines for a translation game.

    Returns: the number of solutions.
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

    Raises `ValueError` if the run is a game on another task.
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


if __name__ == "__main__":
    from experiments import translations  # the module that recipes name, whose task the run has

    sys.exit(translations.main())
