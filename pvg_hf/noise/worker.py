"""A base checker that is a Python function in a process of its own, which is killed when the function hangs."""

import multiprocessing
import os
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection

from pvg_hf.extensions import NamedCode, load_extension, refuse_withheld
from pvg_hf.noise.command import checker_environment, end_group
from pvg_hf.noise.verdicts import Problem, Verdict, judge

START_SECONDS = 120.0  # for the imports of the function's module
_PROCESSES = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang by itself


class WorkerChecker:
    """
    Asks a function in a worker process. The worker is started at the first question, serves all that follow, and is
    killed, with whatever it started, when an answer takes longer than its budget; the next question gets a new one.

    Args:
        function (`str` or `Callable`):
            `(problem, solution) -> bool`: `package.module:Name`, or a function that can be pickled.
        env (`Sequence[str]`, *optional*):
            Names of environment variables that the function sees besides `pvg_hf.noise.command.KEPT_VARIABLES`.

    Raises:
        TypeError: when asked, if the function returns something that is not a boolean.
        UntrustedCodeError: if a pulled recipe names the function, and the user does not trust it yet.
    """

    def __init__(self, function: str | Callable[[Problem, str], bool], env: Sequence[str] = ()):
        if isinstance(function, str):  # which another process imports
            refuse_withheld([NamedCode.of("function", function)])
        self.function = function
        self.env = tuple(env)
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection | None = None

    def ask(self, problem: Problem, solution: str, budget_seconds: float) -> Verdict:
        if self._process is None:
            error = self._start()
            if error is not None:
                return Verdict(None, 0.0, error)
        try:
            self._connection.send((dict(problem), solution))
            if not self._connection.poll(budget_seconds):
                self.close()
                return Verdict(None, budget_seconds)
            answer = self._connection.recv()
        except (EOFError, OSError):
            self._process.join(1)
            code = self._process.exitcode
            self.close()
            return Verdict(None, 0.0, f"The checker's process ended with {code} before it had answered.")
        if isinstance(answer, TypeError):
            self.close()
            raise answer
        return answer

    def _start(self) -> str | None:
        """The error that kept it from starting, if there was one."""
        self._connection, theirs = _PROCESSES.Pipe()
        self._process = _PROCESSES.Process(target=_serve, args=(self.function, theirs, self.env), daemon=True)
        self._process.start()
        theirs.close()
        try:
            told = self._connection.recv() if self._connection.poll(START_SECONDS) else "It does not start."
        except EOFError:
            told = "The checker's process ended while it was starting."
        if told is not None:
            self.close()
        return told

    def close(self) -> None:
        """Kill the worker, if there is one."""
        if self._process is None:
            return
        end_group(self._process.pid)
        self._process.kill()
        self._process.join()
        self._connection.close()
        self._process = self._connection = None


def _serve(function: str | Callable[[Problem, str], bool], connection: Connection, env: Sequence[str]) -> None:
    """The worker: answers until nobody asks any more."""
    cleaned = checker_environment(env)
    os.environ.clear()
    os.environ.update(cleaned)
    os.setsid()  # so that what the function starts dies with the worker
    try:
        found = load_extension(function, "checker") if isinstance(function, str) else function
    except Exception as err:  # noqa: BLE001 - told to whoever asks
        connection.send(f"{type(err).__name__}: {err}")
        return
    connection.send(None)
    while True:
        try:
            problem, solution = connection.recv()
        except EOFError:
            return
        try:
            connection.send(judge(found, problem, solution))
        except TypeError as err:
            connection.send(err)
