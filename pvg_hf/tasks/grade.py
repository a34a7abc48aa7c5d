"""A task's grade of one solution."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np

from pvg_hf.core.extensions import ExtensionError, running

SHOWN = 80  # characters of a solution in a message


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


def call_grader(
    grader: Callable[[Mapping[str, Any], str], Grade],
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
