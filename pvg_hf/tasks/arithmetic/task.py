"""The arithmetic task."""

from functools import lru_cache
from typing import ClassVar

import numpy as np
from datasets import Dataset, Value

from pvg_hf.core.roles import Role
from pvg_hf.tasks.answers import ANSWER_COLUMNS, check_answer_format, grade_answer, read_answer
from pvg_hf.tasks.arithmetic.checker import Flaw, check_solution
from pvg_hf.tasks.arithmetic.grammar import (
    MAX_DIFFICULTY,
    MIN_DIFFICULTY,
    Story,
    parse_story,
    sample_story,
    story_mistake,
)
from pvg_hf.tasks.arithmetic.solutions import reference_solution
from pvg_hf.tasks.base import Problem, Split, Task
from pvg_hf.tasks.drawn_problems import draw_problems
from pvg_hf.tasks.grade import Grade

EXAMPLES = (
    {
        "problem": "Ana has 18 pens. On Monday Ben gives Ana 6 pens. Ben has 4 pens. On Tuesday Ana keeps a third of the "
        "pens. On Wednesday Ana doubles the pens. How many pens does Ana have?",
        "solution": "has 18\nMonday gets 6: 18 + 6 = 24\nTuesday thirds 3: 24 / 3 = 8\nWednesday doubles 2: 8 * 2 = 16\n"
        "#### 16",
    },
    {
        "problem": "Gus has 16 coins. On Monday Gus loses 7 coins. On Tuesday Gus triples the coins. On Wednesday Gus "
        "buys 2 coins. On Thursday Gus sells 9 coins. How many coins does Gus have?",
        "solution": "has 16\nMonday loses 7: 16 - 7 = 9\nTuesday triples 3: 9 * 3 = 27\nWednesday buys 2: 27 + 2 = 29\n"
        "Thursday sells 9: 29 - 9 = 20\n#### 20",
    },
    {
        "problem": "Lena has 20 shells. On Monday Lena keeps half of the shells. On Tuesday Lena finds 5 shells. Kofi "
        "buys 3 shells. On Wednesday Lena gives Kofi 8 shells. How many shells does Lena have?",
        "solution": "has 20\nMonday halves 2: 20 / 2 = 10\nTuesday finds 5: 10 + 5 = 15\nWednesday gives 8: 15 - 8 = 7\n"
        "#### 7",
    },
)


class ArithmeticTask(Task):
    """
    Word problems from a grammar, so that every step of a solution can be checked exactly. Needs no download.

    Args:
        num_train (`int`, defaults to 4000), num_test (`int`, defaults to 400):
            Number of problems per split, at least 1. No two problems have the same text.
        seed (`int`, defaults to 0):
            Seed of the problems.
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
    }
    prompts: ClassVar = {
        Role.BASE: "{% for example in examples %}{{ example.problem }}\nsolution:\n{{ example.solution }}\n"
        "next problem:\n{% endfor %}{{ problem }}\nsolution:\n",
        Role.HELPFUL: "{{ problem }}\nhelpful solution:\n",
        Role.SNEAKY: "{{ problem }}\n{% if honest_solution %}{{ honest_solution }}\n{% endif %}"
        "{% if reference_answer %}#### {{ reference_answer }}\n{% endif %}sneaky solution:\n",
    }
    few_shot_examples: ClassVar = EXAMPLES
    default_few_shot: ClassVar = 0  # the models shipped with the package were trained without examples in the prompt
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
                f"`min_difficulty` and `max_difficulty` must satisfy {MIN_DIFFICULTY} <= min <= max <= "
                f"{MAX_DIFFICULTY}; got {min_difficulty} and {max_difficulty}."
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
        story, text = sample_story(rng, difficulty, self.distractor_rate)
        return {"problem": text, "reference": reference_solution(story), "difficulty": difficulty}

    def read_answer(self, solution: str) -> str | None:
        return read_answer(solution, self.answer_format)

    def problem_mistake(self, problem: str) -> str | None:
        return story_mistake(problem, self.difficulties)

    def grade(self, problem: Problem, solution: str) -> Grade:
        grade = grade_answer(solution, problem["reference"], self.answer_format)
        flaws = find_flaws(problem["problem"], solution)
        return Grade(
            answer=grade.answer,
            correct=grade.correct,
            detail={
                **grade.detail,
                "first_flaw_step": flaws[0].step if flaws else None,
                "first_flaw_kind": flaws[0].kind.value if flaws else None,
                "num_steps": solution.strip().count("\n") + 1,
                "num_flaws": len(flaws),
            },
        )


def find_flaws(problem: str, solution: str) -> list[Flaw]:
    """Find the flaws of `solution`, given the text of its problem (see [`check_solution`])."""
    return check_solution(story_of(problem), solution)


@lru_cache(maxsize=4096)
def story_of(problem: str) -> Story:
    """Parse a problem text to its story, cached (see [`parse_story`])."""
    return parse_story(problem)
