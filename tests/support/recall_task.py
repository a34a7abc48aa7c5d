"""A task that the smallest models can learn: repeat the number that the problem states."""

import re
from typing import ClassVar
from zlib import crc32

from datasets import Dataset, Value

from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_rng
from pvg_hf.tasks.answers import grade_answer
from pvg_hf.tasks.arithmetic.grammar import NAMES, OBJECTS
from pvg_hf.tasks.base import Grade, Problem, Split, Task

NUMBERS = range(3, 9)


class RecallTask(Task):
    """
    `Ana has 5 pens.` is solved by `has 5`; texts use the arithmetic task's words, so that its tokenizer can be used.
    """

    name = "recall"
    columns: ClassVar = {"difficulty": Value("int32")}
    prompts: ClassVar = {
        Role.BASE: "{{ problem }}\nsolution:\n",
        Role.HELPFUL: "{{ problem }}\nhelpful solution:\n",
        Role.SNEAKY: "{{ problem }}\nsneaky solution:\n",
    }

    def __init__(self, num_train: int = 100, num_test: int = 8):
        self.num_problems = {"train": num_train, "test": num_test}

    def problems(self, split: Split) -> Dataset:
        texts = [(f"{name} has {n} {things}.", n) for name in NAMES for things in OBJECTS for n in NUMBERS]
        order = derive_rng(self.name).permutation(len(texts)).tolist()
        first = 0 if split == "test" else self.num_problems["test"]
        chosen = [texts[index] for index in order[first : first + self.num_problems[split]]]
        return Dataset.from_list(
            [
                {"problem_id": f"{split}-{i}", "problem": text, "reference": write_solution(n), "difficulty": n}
                for i, (text, n) in enumerate(chosen)
            ]
        )

    def grade(self, problem: Problem, solution: str) -> Grade:
        grade = grade_answer(solution, problem["reference"])
        return Grade(grade.answer, grade.correct)


class ExemplifiedRecallTask(RecallTask):
    """The same task with two examples, of which one has a wrong solution for the sneaky role."""

    few_shot_examples: ClassVar = (
        {"problem": "Ana has 9 pens.", "solution": "has 9\n#### 9", "wrong_solution": "has 8\n#### 8"},
        {"problem": "Ben has 9 pens.", "solution": "has 9\n#### 9"},
    )


class StoppedRecallTask(RecallTask):
    """The same task, but a base prover's solution ends before its answer."""

    stop_strings: ClassVar = ("\n####",)


class TestedRecallTask(RecallTask):
    """
    The same task, which also states a certificate, the share of a solution that is right, and the share that is
    copied.
    """

    __test__ = False  # of pytest, which takes the name for a class of tests
    detail_columns: ClassVar = {"similarity": Value("float32")}

    def grade(self, problem: Problem, solution: str) -> Grade:
        grade = super().grade(problem, solution)
        return Grade(
            grade.answer,
            grade.correct,
            certified=None if grade.answer is None else True,
            test_pass_rate=1.0 if grade.correct else 0.25,
            detail={"similarity": min(len(solution), 50) / 50},
        )


class FlakyRecallTask(TestedRecallTask):
    """The same task, whose `grade` fails on a few of the solutions that provers write."""

    def grade(self, problem: Problem, solution: str) -> Grade:
        if is_troublesome(problem["reference"], solution):
            raise ZeroDivisionError("a solution that nobody thought of")
        return super().grade(problem, solution)


def is_troublesome(reference: str, solution: str) -> bool:
    """Whether `FlakyRecallTask` fails on a solution."""
    return solution.startswith("has") and solution != reference and crc32(f"{reference} {solution}".encode()) % 25 == 0


ODD_TEXT = "{{ 7 * 7 }} {% if %} {# #} {0} {name} %s %(a)d $x <b> \\n \0 \u2028 \U0001f9ee"


class OddRecallTask(RecallTask):
    """The same task, with texts that templates, format strings, lines, pages or C might read."""

    def problems(self, split: Split) -> Dataset:
        return (
            super()
            .problems(split)
            .map(lambda row: {name: f"{ODD_TEXT}\n{row[name]}" for name in ("problem", "reference")})
        )


class LongRecallTask(RecallTask):
    """The same task, with problems of 100,000 characters."""

    def problems(self, split: Split) -> Dataset:
        return super().problems(split).map(lambda row: {"problem": f"{row['problem']} " * 5000})


class ShownRecallTask(RecallTask):
    """
    The same task, which shows only the answer of the prover's own solutions, so that they differ from references.
    """

    prompts: ClassVar = {
        **RecallTask.prompts,
        Role.SNEAKY: "{{ problem }}\n{% if honest_solution %}{{ honest_solution }}\n{% endif %}sneaky solution:\n",
    }

    def shown_solution(self, solution: str) -> str:
        return f"#### {self.read_answer(solution)}"


class HidingRecallTask(RecallTask):
    """The same task, whose solutions begin with the answer: what a text says before it is for the grader alone."""

    def solution_in(self, text: str) -> str:
        before, mark, answer = text.partition("#")
        return mark + answer or before


class ExampleRecallTask(RecallTask):
    """The same task with an example, a problem that may be in one of its splits."""

    few_shot_examples: ClassVar = ({"problem": "Ana  has 5 pens.", "solution": "has 5\n#### 5"},)


class JudgedRecallTask(RecallTask):
    """The same task, which knows the only possible issue of a solution: a wrong number."""

    def rate_analyses(self, problems: list[str], proofs: list[str], analyses: list[str]) -> list[float]:
        return [
            float(analysis == write_analysis(problem, proof))
            for problem, proof, analysis in zip(problems, proofs, analyses, strict=True)
        ]

    def named_issues(self, problem: str, proof: str, analysis: str) -> list[tuple[str, bool]]:
        return [(line, line == write_analysis(problem, proof)) for line in analysis.split("\n") if line != FINE]

    def analysis_of(self, problem: Problem, proof: str, index: int) -> tuple[str, float]:
        analysis = (FINE, WRONG)[index % 2]
        return analysis, self.rate_analyses([problem["problem"]], [proof], [analysis])[0]


FINE, WRONG = "ok", "wrong operand"


def write_analysis(problem: str, proof: str) -> str:
    """Write the correct analysis."""
    is_right = proof.endswith(f"#### {re.findall(r'[0-9]+', problem)[0]}")
    return FINE if is_right else WRONG


def write_solution(number: int) -> str:
    return f"has {number}\n#### {number}"


class GradedRecallTask(RecallTask):
    """
    The same task, which does not read solutions: they are correct as `graded` says (`all`, `none`, or those to every
    second problem), or have no answer (`silent`).
    """

    references_are_correct: ClassVar = False

    def __init__(self, graded: str, **options: int):
        super().__init__(**options)
        self.graded = graded

    def grade(self, problem: Problem, solution: str) -> Grade:
        is_correct = {"all": True, "none": False, "half": problem["difficulty"] % 2 == 0, "silent": False}[self.graded]
        has_answer = self.graded != "silent" and bool(solution.strip())
        return Grade("3" if has_answer else None, has_answer and is_correct)
