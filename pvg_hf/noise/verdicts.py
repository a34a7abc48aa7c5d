"""Verdicts of base checkers, to which noise is added."""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from pvg_hf.core.extensions import ExtensionError

ProblemRow = Mapping[str, Any]


class Verdict(NamedTuple):
    """
    Verdict of a base checker.

    Args:
        passed: Whether the solution is correct; `None` if the checker did not finish.
    """

    passed: bool | None
    seconds: float = 0.0
    error: str | None = None


class BaseChecker(Protocol):
    """Protocol of a checker without noise."""

    def ask(self, problem: ProblemRow, solution: str, budget_seconds: float) -> Verdict:
        """Judge a solution; the checker is stopped if it takes longer than the budget."""

    def close(self) -> None:
        """End the processes of this checker."""


class FunctionChecker:
    """
    A base checker that calls a function in this process.

    It cannot be stopped; use a [`~pvg_hf.noise.WorkerChecker`] for functions that may hang.
    """

    def __init__(self, function: Callable[[ProblemRow, str], bool]):
        self.function = function

    def ask(self, problem: ProblemRow, solution: str, budget_seconds: float) -> Verdict:
        return judge(self.function, problem, solution)

    def close(self) -> None:
        """Do nothing: there is no process to end."""


def judge(function: Callable[[ProblemRow, str], bool], problem: ProblemRow, solution: str) -> Verdict:
    """
    Call a checker. Any error that it raises becomes its verdict, which does not pass the solution.

    Raises:
        ExtensionError: if it returns something that is not a boolean.
    """
    started = time.monotonic()
    try:
        passed = function(problem, solution)
    except (Exception, SystemExit) as err:  # noqa: BLE001 - a user's checker may raise anything
        return Verdict(None, time.monotonic() - started, f"{type(err).__name__}: {err}")
    if not isinstance(passed, bool | np.bool_):
        raise ExtensionError(
            f"The checker returned {passed!r:.80}, a {type(passed).__name__}; it must return True (correct) or False."
        )
    return Verdict(bool(passed), time.monotonic() - started)
