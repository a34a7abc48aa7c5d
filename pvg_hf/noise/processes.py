"""Base checkers in separate processes: a command, or a Python function in a worker."""

import json
import multiprocessing
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from pvg_hf.core.extensions import AskedSetting, ExtensionError, load_extension, refuse_withheld
from pvg_hf.noise.verdicts import ProblemRow, Verdict, judge

_KEPT = """
    PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TERM TMPDIR TMP TEMP SYSTEMROOT LD_LIBRARY_PATH DYLD_LIBRARY_PATH
    PYTHONPATH PYTHONHOME PYTHONHASHSEED PYTHONUTF8 PYTHONIOENCODING VIRTUAL_ENV CONDA_PREFIX ELAN_HOME XDG_CACHE_HOME
    HF_HOME HF_HUB_CACHE HF_HUB_OFFLINE HF_DATASETS_OFFLINE TRANSFORMERS_OFFLINE CUDA_HOME CUDA_VISIBLE_DEVICES
"""
KEPT_VARIABLES = frozenset(_KEPT.split())
"""Environment variables that every checker sees: programs need them to be found, to start and to read text."""

_KEPT_PREFIXES = ("LC_", "OMP_", "MKL_")
_NOT_RUN_CODES = (126, 127)  # exit codes of a shell for a command that cannot be executed or does not exist
_SHOWN = 500  # characters of an error in messages


class CommandChecker:
    """
    Runs a command for each solution.

    It runs in its own process group, which is killed as a whole when the time is over. Exit code 0 passes the solution
    and any other rejects it. A command that cannot be run, or is ended by a signal, is an error.

    Args:
        command (`Sequence[str]`):
            Program and arguments. `{solution}` is replaced by the path of a file with the text, `{problem}` by that of
            a JSON file with the problem's columns.
        env (`Sequence[str]`, *optional*):
            Names of environment variables that the command sees in addition to `KEPT_VARIABLES`.

    Raises:
        ValueError: if the command is empty or does not contain `{solution}`.
        UntrustedCodeError: if a pulled recipe names it and the user has not trusted it yet.
    """

    def __init__(self, command: Sequence[str], env: Sequence[str] = ()):
        if not command:
            raise ValueError("The checker's `command` is empty; give a program and its arguments.")
        if not any("{solution}" in part for part in command):
            raise ValueError(
                f"The checker's `command` is {list(command)}, which never reads the solution: put `{{solution}}`, the"
                " path of a file with its text, among the arguments."
            )
        refuse_withheld([AskedSetting.of("command", list(command))])
        self.command = list(command)
        self.env = tuple(env)

    def ask(self, problem: ProblemRow, solution: str, budget_seconds: float) -> Verdict:
        with tempfile.TemporaryDirectory(prefix="pvg-check-") as folder:
            places = {"{solution}": Path(folder) / "solution.txt", "{problem}": Path(folder) / "problem.json"}
            try:
                places["{solution}"].write_text(solution, encoding="utf-8")
            except UnicodeEncodeError as err:  # half of a surrogate pair, which no program could read
                return Verdict(None, 0.0, f"UnicodeEncodeError: {err}")
            places["{problem}"].write_text(json.dumps(dict(problem), default=str), encoding="utf-8")
            command = [_fill_paths(part, places) for part in self.command]
            return _run(command, Path(folder) / "errors", budget_seconds, checker_environment(self.env))

    def close(self) -> None:
        """Do nothing: the command of a solution has ended when `ask` returns."""


def _fill_paths(part: str, places: dict[str, Path]) -> str:
    for name, path in places.items():
        part = part.replace(name, str(path))
    return part


def checker_environment(passed: Sequence[str] = ()) -> dict[str, str]:
    """
    Return the part of this process's environment that a checker sees, with the variables named in `passed` if they are
    set.

    A checker judges, and may execute, text from a model, so it gets no tokens, keys or passwords.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if name in KEPT_VARIABLES or name.startswith(_KEPT_PREFIXES) or name in passed
    }


def _run(command: list[str], errors: Path, budget_seconds: float, environment: dict[str, str]) -> Verdict:
    started = time.monotonic()
    with errors.open("wb") as stream:  # not a pipe: a grandchild that holds it would keep it open
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stream,
                start_new_session=True,
                env=environment,
            )
        except OSError as err:
            return Verdict(None, time.monotonic() - started, f"Cannot run {command[0]!r}: {err.strerror}.")
        try:
            code = process.wait(budget_seconds)
        except subprocess.TimeoutExpired:
            return Verdict(None, time.monotonic() - started)
        finally:
            end_group(process.pid)
            process.wait()
    seconds = time.monotonic() - started
    if code < 0 or code in _NOT_RUN_CODES:
        reported = errors.read_text(encoding="utf-8", errors="replace")[-_SHOWN:].strip()
        return Verdict(None, seconds, f"{command[0]!r} ended with {code}: {reported or 'it printed no error'}")
    return Verdict(code == 0, seconds)


def end_group(group: int) -> None:
    """Kill the remaining processes of a group."""
    with suppress(ProcessLookupError):  # the group has ended
        os.killpg(group, signal.SIGKILL)


START_SECONDS = 120.0  # time limit for importing the function's module
_PROCESSES = multiprocessing.get_context("spawn")  # a forked process with threads may hang


class WorkerChecker:
    """
    Calls a function in a worker process.

    The worker starts with the first question and serves all later ones. If an answer takes longer than its budget, the
    worker and everything that it started are killed; the next question starts a new worker.

    Args:
        function (`str` or `Callable`):
            Function `(problem, solution) -> bool`, as `package.module:Name` or as a function that can be pickled.
        env (`Sequence[str]`, *optional*):
            Names of environment variables that the function sees in addition to
            `pvg_hf.noise.processes.KEPT_VARIABLES`.

    Raises:
        ExtensionError: from `ask`, if the function returns something that is not a boolean.
        UntrustedCodeError: if a pulled recipe names the function and the user has not trusted it yet.
    """

    def __init__(self, function: str | Callable[[ProblemRow, str], bool], env: Sequence[str] = ()):
        if isinstance(function, str):  # another process will import it, so check it here
            refuse_withheld([AskedSetting.of("function", function)])
        self.function = function
        self.env = tuple(env)
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection | None = None

    def ask(self, problem: ProblemRow, solution: str, budget_seconds: float) -> Verdict:
        if self._process is None:
            error = self._start()
            if error is not None:
                return Verdict(None, 0.0, error)
        assert self._process is not None
        assert self._connection is not None
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
            return Verdict(None, 0.0, f"The checker's process ended with {code} before it answered.")
        if isinstance(answer, ExtensionError):
            self.close()
            raise answer
        return answer

    def _start(self) -> str | None:
        """Start the worker; return the error that prevented it, or `None`."""
        self._connection, theirs = _PROCESSES.Pipe()
        self._process = _PROCESSES.Process(target=_serve, args=(self.function, theirs, self.env), daemon=True)
        self._process.start()
        theirs.close()
        try:
            reported = self._connection.recv() if self._connection.poll(START_SECONDS) else "It does not start."
        except EOFError:
            reported = "The checker's process ended while it was starting."
        if reported is not None:
            self.close()
        return reported

    def close(self) -> None:
        """Kill the worker, if any."""
        if self._process is None or self._connection is None:
            return
        assert self._process.pid is not None
        end_group(self._process.pid)
        self._process.kill()
        self._process.join()
        self._connection.close()
        self._process = self._connection = None


def _serve(function: str | Callable[[ProblemRow, str], bool], connection: Connection, env: Sequence[str]) -> None:
    """Main loop of the worker: answers questions until the connection is closed."""
    cleaned = checker_environment(env)
    os.environ.clear()
    os.environ.update(cleaned)
    os.setsid()  # a new process group, so that processes that the function starts are killed with the worker
    try:
        found = load_extension(function, "checker") if isinstance(function, str) else function
    except Exception as err:  # noqa: BLE001 - reported to the parent process
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
        except ExtensionError as err:
            connection.send(err)
