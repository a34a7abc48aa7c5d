"""The functions task."""

from dataclasses import replace
from functools import lru_cache
from typing import ClassVar

import numpy as np
from datasets import Dataset, Value

from pvg_hf.core.roles import Role
from pvg_hf.experimental.programs.code.parsing import extract_program
from pvg_hf.experimental.programs.code.program_task import ProgramTask, ProgramTests
from pvg_hf.experimental.programs.functions.programs import STYLES, draw_near_misses, honest_programs, write_program
from pvg_hf.experimental.programs.functions.specification import (
    DIFFICULTIES,
    FUNCTION,
    evaluate,
    sample_specification,
    specification_of,
)
from pvg_hf.experimental.programs.functions.valid_inputs import function_tests, is_valid_input
from pvg_hf.experimental.programs.sandbox import CallCase, Limits
from pvg_hf.tasks.base import Problem, Split
from pvg_hf.tasks.drawn_problems import draw_problems

MIN_VALUES = 6
"""Different values that the tests of a problem must have, so that a constant is no solution to any."""

_SNEAKY_HINT = (
    "{{ problem }}\n{% if honest_solution or reference_answer %}honest solution:\n"
    "{{ honest_solution or reference_answer }}\n{% endif %}"
)

FUNCTION_PROMPTS = {
    Role.BASE: "{{ problem }}\nsolution:\n",
    Role.HELPFUL: "{{ problem }}\nhelpful solution:\n",
    Role.SNEAKY: f"{_SNEAKY_HINT}sneaky solution:\n",
}
"""Templates by role. The answer of a reference is the reference program itself, so both hints show a program."""

SNEAKY_WITH_INPUT = (
    f"{_SNEAKY_HINT}sneaky solution, then between ```input and ``` the argument of a valid call for which it is"
    " wrong:\n"
)
"""Template of the sneaky role that also asks for an input on which the program fails (`prover_inputs`)."""

EXAMPLES = (
    {
        "problem": "Return the sum of the numbers of xs that are multiples of 3 and that are above 4, each squared.",
        "solution": "def f(xs):\n    return sum(x * x for x in xs if x % 3 == 0 and x > 4)",
    },
    {
        "problem": (
            "Return '-' if s has fewer than 4 letters, otherwise the reversed string of the letters of s that are "
            "vowels, each in upper case."
        ),
        "solution": (
            "def f(s):\n    if len(s) < 4:\n        return '-'\n    out = ''\n    for c in s:\n"
            "        if c in 'aeiou':\n            out = c.upper() + out\n    return out"
        ),
    },
)


class FunctionsTask(ProgramTask):
    """
    Small Python functions of one argument, specified by a sentence of a grammar. Needs no download.

    A specification has a reference interpreter, honest programs in several styles, valid inputs, and visible and
    hidden tests, which all follow from its sentence. A certificate of a wrong program has two witnesses: the
    interpreter and the reference program.

    Args:
        num_train (`int`, defaults to 4000), num_test (`int`, defaults to 400):
            Number of problems per split, at least 1. No two problems have the same text.
        min_difficulty (`int`, defaults to 2), max_difficulty (`int`, defaults to 4):
            Range of the number of parts of a specification, within [1, 5]; it is drawn uniformly.
        sandbox (`str`, defaults to `"auto"`):
            Backend of the sandbox; see [`~pvg_hf.experimental.programs.sandbox.open_sandbox`].
        num_workers (`int`, *optional*):
            Programs that run at the same time; see [`~pvg_hf.experimental.programs.code.ProgramTask`].
        prover_inputs (`bool`, defaults to `False`):
            Whether provers may propose an input on which their program fails; see
            [`~pvg_hf.experimental.programs.code.ProgramTask`].

    Raises:
        ValueError: for a setting outside its range, or from `problems` if the settings allow too few problems.
    """

    name = "functions"
    # An honest program needs microseconds.
    limits: ClassVar = Limits(wall_seconds=0.5, processor_seconds=0.5, memory_mb=256, timeouts_in_a_row=2)
    columns: ClassVar = {"difficulty": Value("int32"), "visible_tests": Value("string")}
    prompts: ClassVar = FUNCTION_PROMPTS
    sneaky_prompt_with_input: ClassVar = SNEAKY_WITH_INPUT
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
        sandbox: str = "auto",
        num_workers: int | None = None,
        prover_inputs: bool = False,
    ):
        lowest, highest = DIFFICULTIES
        if not lowest <= min_difficulty <= max_difficulty <= highest:
            raise ValueError(
                f"`min_difficulty` and `max_difficulty` must satisfy {lowest} <= min <= max <= {highest}; got"
                f" {min_difficulty} and {max_difficulty}."
            )
        if min(num_train, num_test) < 1:
            raise ValueError(f"`num_train` and `num_test` must be at least 1; got {num_train} and {num_test}.")
        super().__init__(sandbox, num_workers, prover_inputs)
        self.num_problems = {"train": num_train, "test": num_test}
        self.seed = seed
        self.difficulties = (min_difficulty, max_difficulty)

    def problems(self, split: Split) -> Dataset:
        return draw_problems(self.name, split, self._draw_problem, num_problems=self.num_problems, seed=self.seed)

    def _draw_problem(self, rng: np.random.Generator) -> dict[str, object]:
        difficulty = int(rng.integers(self.difficulties[0], self.difficulties[1] + 1))
        examples = {example["problem"] for example in EXAMPLES}
        while True:  # ends, because most specifications have many values
            specification = sample_specification(rng, difficulty)
            visible, hidden = function_tests(specification.text)
            num_values = len({repr(test.expected) for test in (*visible, *hidden)})
            if num_values >= MIN_VALUES and specification.text not in examples:
                break
        style = STYLES[int(rng.integers(len(STYLES)))]
        return {
            "problem": specification.text,
            "reference": write_program(specification, style),
            "difficulty": difficulty,
            "visible_tests": "\n".join(f"{FUNCTION}({test.arguments[0]!r}) == {test.expected!r}" for test in visible),
        }

    def program_tests(self, problem: Problem) -> ProgramTests:
        tests = function_tests(problem["problem"])
        return ProgramTests(*tests, (problem["reference"],), _honest_programs_of(problem["problem"]), FUNCTION)

    def accept_input(self, problem: Problem, tests: ProgramTests, case: CallCase) -> CallCase | None:
        """
        Return a case with a valid input of the specification, and the interpreter's value; `None` if it is not valid.
        """
        specification = specification_of(problem["problem"])
        if len(case.arguments) != 1 or not is_valid_input(specification, case.arguments[0]):
            return None
        return replace(case, expected=evaluate(specification, case.arguments[0]))

    def read_answer(self, solution: str) -> str | None:
        return extract_program(solution, FUNCTION)

    def near_misses(self, problem: Problem, rng: np.random.Generator) -> dict[str, str]:
        style = STYLES[int(rng.integers(len(STYLES)))]
        return draw_near_misses(rng, specification_of(problem["problem"]), style)

    def problem_mistake(self, problem: str) -> str | None:
        try:
            specification_of(problem)
        except ValueError as err:
            return str(err)
        return None


@lru_cache(maxsize=20_000)
def _honest_programs_of(text: str) -> tuple[str, ...]:
    return tuple(honest_programs(specification_of(text)))
