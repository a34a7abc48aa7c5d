"""The arithmetic task."""

from typing import ClassVar

import numpy as np
from datasets import Dataset, Value

from pvg_hf.core.roles import Role
from pvg_hf.tasks.answers import ANSWER_COLUMNS, check_answer_format, grade_answer, read_answer
from pvg_hf.tasks.arithmetic.flaw import Flaw, Reading
from pvg_hf.tasks.arithmetic.flaw_detection import check_solution
from pvg_hf.tasks.arithmetic.grammar import MAX_DIFFICULTY, MIN_DIFFICULTY, puzzle_mistake, puzzle_of, sample_puzzle
from pvg_hf.tasks.arithmetic.writer import FLAW_KINDS, reference_solution, sample_solution
from pvg_hf.tasks.base import Grade, Problem, Split, Task
from pvg_hf.tasks.drawn_problems import draw_problems

EXAMPLES = (
    {
        "problem": (
            "Ana has 12 pens.\nDev has 4 pens.\nBen has 6 more than Ana.\nCleo has a third as many as Ben.\n"
            "How many pens does Cleo have?"
        ),
        "solution": (
            "Ana has 12\nBen has 6 more than Ana: 12 + 6 = 18\nCleo has a third as many as Ben: 18 / 3 = 6\n#### 6"
        ),
        "wrong_solution": (
            "Ana has 12\nBen has 6 more than Ana: 12 + 6 = 18\nCleo has a third as many as Ana: 12 / 3 = 4\n#### 4"
        ),
    },
    {
        "problem": (
            "June has 9 coins.\nGus has 5 coins.\nHana has twice as many as Gus.\n"
            "Kofi has as many as Hana and June together.\nHow many coins does Kofi have?"
        ),
        "solution": (
            "Gus has 5\nHana has twice as many as Gus: 5 * 2 = 10\nJune has 9\n"
            "Kofi has as many as Hana and June together: 10 + 9 = 19\n#### 19"
        ),
        "wrong_solution": (
            "Gus has 5\nHana has twice as many as Gus: 5 + 2 = 7\nJune has 9\n"
            "Kofi has as many as Hana and June together: 7 + 9 = 16\n#### 16"
        ),
    },
    {
        "problem": (
            "Eli has 14 shells.\nIvan has half as many as Eli.\nFay has 2 more than Eli.\nLena has 3 fewer than"
            " Ivan.\nHow many shells does Lena have?"
        ),
        "solution": (
            "Eli has 14\nIvan has half as many as Eli: 14 / 2 = 7\nLena has 3 fewer than Ivan: 7 - 3 = 4\n#### 4"
        ),
        "wrong_solution": (
            "Eli has 14\nIvan has half as many as Eli: 14 / 2 = 8\nLena has 3 fewer than Ivan: 8 - 3 = 5\n#### 5"
        ),
    },
)


class ArithmeticTask(Task):
    """
    Word problems from a grammar, so that every step of a solution can be checked exactly. Needs no download.

    Args:
        num_train (`int`, defaults to 4000), num_test (`int`, defaults to 400):
            Number of problems per split, at least 1. No two problems have the same text.
        min_difficulty (`int`, defaults to 2), max_difficulty (`int`, defaults to 4):
            Range of the number of steps, within [2, 6]; it is drawn uniformly.
        distractor_rate (`float`, defaults to 0.5):
            Share of problems with a sentence about somebody else's objects, in [0, 1].
        answer_format (`"strict"` or `"lenient"`, defaults to `"strict"`):
            The reading of the final answer that decides.

    Raises:
        ValueError: for a setting outside its range, or from `problems` if the settings allow too few problems.
    """

    name = "arithmetic"
    columns: ClassVar = {"difficulty": Value("int32")}
    detail_columns: ClassVar = {
        **ANSWER_COLUMNS,
        "first_flaw_step": Value("int32"),
        "first_flaw_kind": Value("string"),
        "num_steps": Value("int32"),
        "num_flaws": Value("int32"),
        "implicit_share": Value("float64"),
    }
    prompts: ClassVar = {
        Role.BASE: "{{ problem }}\nsolution:\n",
        Role.HELPFUL: "{{ problem }}\nhelpful solution:\n",
        Role.SNEAKY: "{{ problem }}\n{% if honest_solution %}{{ honest_solution }}\n{% endif %}"
        "{% if reference_answer %}#### {{ reference_answer }}\n{% endif %}sneaky solution:\n",
    }
    few_shot_examples: ClassVar = EXAMPLES
    default_few_shot: ClassVar = 0  # the models shipped with the package were trained without examples in the prompt
    example_separator: ClassVar = "\nnext problem:\n"
    stop_strings: ClassVar = ("\nnext problem:",)

    def __init__(
        self,
        num_train: int = 4000,
        num_test: int = 400,
        seed: int = 0,
        min_difficulty: int = 2,
        max_difficulty: int = 4,
        distractor_rate: float = 0.5,
        answer_format: str = "strict",
    ):
        if not MIN_DIFFICULTY <= min_difficulty <= max_difficulty <= MAX_DIFFICULTY:
            raise ValueError(
                f"`min_difficulty` and `max_difficulty` must satisfy {MIN_DIFFICULTY} <= min <= max <="
                f" {MAX_DIFFICULTY}; got {min_difficulty} and {max_difficulty}."
            )
        if min(num_train, num_test) < 1:
            raise ValueError(f"`num_train` and `num_test` must be at least 1; got {num_train} and {num_test}.")
        check_answer_format(answer_format)
        if not 0 <= distractor_rate <= 1:
            raise ValueError(f"`distractor_rate` must lie in [0, 1]; got {distractor_rate}.")
        self.num_problems = {"train": num_train, "test": num_test}
        self.seed = seed
        self.difficulties = (min_difficulty, max_difficulty)
        self.distractor_rate = distractor_rate
        self.answer_format = answer_format

    def problems(self, split: Split) -> Dataset:
        return draw_problems(self.name, split, self._draw_problem, num_problems=self.num_problems, seed=self.seed)

    def _draw_problem(self, rng: np.random.Generator) -> dict[str, object]:
        difficulty = int(rng.integers(self.difficulties[0], self.difficulties[1] + 1))
        text, reference = self.draw_text(rng, difficulty)
        return {"problem": text, "reference": reference, "difficulty": difficulty}

    def draw_text(self, rng: np.random.Generator, difficulty: int) -> tuple[str, str]:
        """Draw the text of a problem, and its reference."""
        puzzle = sample_puzzle(rng, difficulty, self.distractor_rate)
        return puzzle.text, reference_solution(puzzle)

    def check_steps(self, problem: str, solution: str) -> Reading:
        """
        Check a solution line by line, given the text of its problem.

        Raises:
            ValueError: if `problem` is not a problem of this task.
        """
        return check_solution(puzzle_of(problem), solution)

    def read_answer(self, solution: str) -> str | None:
        return read_answer(solution, self.answer_format)

    def problem_mistake(self, problem: str) -> str | None:
        return puzzle_mistake(problem, self.difficulties)

    def near_misses(self, problem: Problem, rng: np.random.Generator) -> dict[str, str]:
        puzzle = puzzle_of(problem["problem"])
        return {kind.value: sample_solution(rng, puzzle, kind) for kind in FLAW_KINDS}

    def grade(self, problem: Problem, solution: str) -> Grade:
        grade = grade_answer(solution, problem["reference"], self.answer_format)
        reading = self.check_steps(problem["problem"], solution)
        first = reading.flaws[0] if reading.flaws else None
        return Grade(
            answer=grade.answer,
            correct=grade.correct,
            detail={
                **grade.detail,
                "first_flaw_step": first.step if first else None,
                "first_flaw_kind": first.kind.value if first else None,
                "num_steps": solution.strip().count("\n") + 1,
                "num_flaws": len(reading.flaws),
                "implicit_share": reading.implicit_share,
            },
        )


def find_flaws(problem: str, solution: str) -> list[Flaw]:
    """Find the flaws of `solution`, at most one per line, given the text of its problem."""
    return list(check_solution(puzzle_of(problem), solution).flaws)
