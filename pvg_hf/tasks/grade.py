"""A task's grade of one solution, and the graders that give it."""

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np

from pvg_hf.core.extensions import ExtensionError, running
from pvg_hf.core.stopwatch import GRADING, spending
from pvg_hf.core.threads import call_in_threads

logger = logging.getLogger(__name__)

SHOWN = 80  # characters of a solution in a message
FAILURE = "grader_error"
"""Key of `Grade.detail` with the error of a grader that failed."""


@dataclass(frozen=True)
class Grade:
    """
    A task's grade of one solution.

    Args:
        answer (`str`, *optional*):
            The final answer; `None` if there is none or it cannot be parsed.
        correct (`bool`):
            Whether the solution is correct, free of label noise. Never True without an answer.
        certified (`bool`, *optional*):
            Whether the task's certificate (a proof checker, a test suite) holds; `None` if the task has none.
        test_pass_rate (`float`, *optional*):
            Share of tests passed, in [0, 1]; `None` if the task has no tests.
        detail (`dict[str, Any]`):
            A value for each of the task's `detail_columns`.
        abstains (`bool`, defaults to `False`):
            Whether nobody can say if the solution is correct, through no fault of its own, such as when a sandbox failed. It
            then gets neither a label nor a reward.
    """

    answer: str | None
    correct: bool
    certified: bool | None = None
    test_pass_rate: float | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    abstains: bool = False

    @property
    def label(self) -> int | None:
        """1 for a correct solution, 0 for an incorrect one, `None` if the grade abstains."""
        return None if self.abstains else int(self.correct)

    def signal(self, name: str) -> float:
        """
        Return `certified`, `test_pass_rate` or a number in `detail` as a float for rewards; NaN if it is missing.
        """
        stated = {"certified": self.certified, "test_pass_rate": self.test_pass_rate, **self.detail}
        value = stated.get(name)
        return math.nan if value is None else float(value)


Grader = Callable[[Mapping[str, Any], str], Grade]


def call_grader(
    grader: Grader,
    problem: Mapping[str, Any],
    solution: str,
    *,
    name: str = "The grader",
    detail: Iterable[str] = (),
) -> Grade:
    """
    Grade a solution with code that may be the user's, and check the result.

    Args:
        grader (`Callable`):
            Function `(problem, solution) -> Grade`.
        problem (`Mapping[str, Any]`), solution (`str`):
            Its arguments.
        name (`str`, defaults to `"The grader"`):
            Name of the grader in messages.
        detail (`Iterable[str]`, *optional*):
            Keys that `Grade.detail` must have.

    Raises:
        ExtensionError: if the grader raises any error or does not return a consistent [`Grade`]. The message has the
            problem's id and the beginning of the solution.
    """
    asked = f"{name}, asked about the problem `{problem.get('problem_id')}` and the solution {solution[:SHOWN]!r},"
    with running(asked):
        grade = grader(problem, solution)
    mistake = _find_mistake(grade, detail)
    if mistake is not None:
        raise ExtensionError(f"{asked} {mistake}")
    return grade


# A grader is broken if it fails on a larger share of the solutions, and on more of them.
MAX_FAILED_SHARE = 0.1
MAX_FAILED = 10


class TolerantGrader:
    """
    Grades solutions with code that may fail on some of them.

    A solution on which it fails has no answer, and its grade abstains, so that it gets neither a label nor a reward. The first
    failure is logged.

    Args:
        grader (`Callable`):
            Function `(problem, solution) -> Grade`, which several threads may call at the same time.
        name (`str`, defaults to `"The grader"`), detail (`Iterable[str]`, *optional*):
            As for [`call_grader`].
    """

    def __init__(self, grader: Grader, *, name: str = "The grader", detail: Iterable[str] = ()):
        self.grader = grader
        self.name = name
        self.detail = tuple(detail)
        self.num_graded = self.num_failed = 0

    @spending(GRADING)
    def __call__(self, asked: Sequence[tuple[Mapping[str, Any], str]], num_threads: int = 1) -> list[Grade]:
        """
        Grade solutions.

        Args:
            asked (`Sequence[tuple[Mapping, str]]`):
                Problem and solution of each.
            num_threads (`int`, defaults to 1):
                Number of threads that call the grader at the same time.

        Raises:
            ExtensionError: if it has failed on more than `MAX_FAILED_SHARE` of the solutions since [`take_counts`], and on more
                than `MAX_FAILED`.
        """
        grades = call_in_threads(self._grade, asked, num_threads)
        errors = [grade.detail[FAILURE] for grade in grades if FAILURE in grade.detail]
        if errors and not self.num_failed:
            logger.warning("%s Such a solution has no answer, and gets neither a label nor a reward.", errors[0])
        self.num_graded += len(grades)
        self.num_failed += len(errors)
        if errors and self.num_failed > max(MAX_FAILED, MAX_FAILED_SHARE * self.num_graded):
            raise ExtensionError(
                f"{errors[-1]} It failed on {self.num_failed:,} of {self.num_graded:,} solutions; repair it, or let it grade such "
                "solutions as incorrect."
            )
        return grades

    def take_counts(self) -> tuple[int, int]:
        """Return the numbers of solutions that were graded, and on which the grader failed; then count from 0."""
        counts = self.num_graded, self.num_failed
        self.num_graded = self.num_failed = 0
        return counts

    def _grade(self, problem: Mapping[str, Any], solution: str) -> Grade:
        try:
            return call_grader(self.grader, problem, solution, name=self.name, detail=self.detail)
        except ExtensionError as err:
            return Grade(None, correct=False, detail={**dict.fromkeys(self.detail), FAILURE: str(err)}, abstains=True)


def _find_mistake(grade: object, detail: Iterable[str]) -> str | None:
    """Describe what is wrong with a grade; `None` if nothing is."""
    if not isinstance(grade, Grade):
        return f"returns {grade!r:.80}, a {type(grade).__name__}; it must return a `pvg_hf.tasks.Grade`."
    if not isinstance(grade.correct, bool | np.bool_):
        return f"returns `correct={grade.correct!r:.80}`; it must be True or False."
    if not isinstance(grade.answer, str | None):
        return f"returns `answer={grade.answer!r:.80}`; it must be a text, or None if there is no final answer."
    # Votes and best-of-n choose among answers, so a correct solution needs one.
    if grade.correct and grade.answer is None:
        return "returns `correct=True` without an `answer`; a solution without a final answer is never correct."
    if grade.correct and grade.abstains:
        return "returns `correct=True` and `abstains=True`; a grade that abstains does not call a solution correct."
    if not isinstance(grade.certified, bool | np.bool_ | None):
        return f"returns `certified={grade.certified!r:.80}`; it must be True, False, or None for a task without certificates."
    rate = grade.test_pass_rate
    if rate is not None and not (isinstance(rate, Real) and 0 <= rate <= 1):
        return f"returns `test_pass_rate={rate!r:.80}`; it must lie in [0, 1], or be None for a task without tests."
    missing = [key for key in detail if key not in grade.detail]
    if missing:
        return (
            f"returns a `detail` without {', '.join(f'`{key}`' for key in missing)} of the task's `detail_columns`; it has "
            f"{list(grade.detail)}."
        )
    return None
