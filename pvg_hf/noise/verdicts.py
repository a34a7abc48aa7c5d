"""What a base checker, the one behind the noise, comes to."""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

Problem = Mapping[str, Any]


class Verdict(NamedTuple):
    """
    Args:
        passed (`bool`, *optional*):
            Whether the solution is correct; `None` where the checker came to no end.
        seconds (`float`):
            That it took.
        error (`str`, *optional*):
            The text of what it raised.
    """

    passed: bool | None
    seconds: float = 0.0
    error: str | None = None


class BaseChecker(Protocol):
    """What the noise is put on."""

    def ask(self, problem: Problem, solution: str, budget_seconds: float) -> Verdict:
        """Judge a solution; where it takes longer than the budget, it is stopped."""

    def close(self) -> None:
        """End what it has started."""


class FunctionChecker:
    """
    A function of this process. It cannot be stopped: what may hang goes into a [`~pvg_hf.noise.WorkerChecker`].

    Args:
        function (`Callable`):
            `(problem, solution) -> bool`.
    """

    def __init__(self, function: Callable[[Problem, str], bool]):
        self.function = function

    def ask(self, problem: Problem, solution: str, budget_seconds: float) -> Verdict:
        return judge(self.function, problem, solution)

    def close(self) -> None:
        """It has started nothing."""


def judge(function: Callable[[Problem, str], bool], problem: Problem, solution: str) -> Verdict:
    """
    Call a checker. Whatever it raises is its verdict: an error, which passes nothing.

    Raises:
        TypeError: if it returns something that is not a boolean: then nothing that it says can be read.
    """
    started = time.monotonic()
    try:
        passed = function(problem, solution)
    except (Exception, SystemExit) as err:  # noqa: BLE001 - whatever a checker of the user's raises, Ctrl-C aside
        return Verdict(None, time.monotonic() - started, f"{type(err).__name__}: {err}")
    if not isinstance(passed, bool | np.bool_):
        raise TypeError(
            f"The checker returned {passed!r}, a {type(passed).__name__}; it must return True (correct) or False."
        )
    return Verdict(bool(passed), time.monotonic() - started)
