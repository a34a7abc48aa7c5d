"""A base checker that is a command, such as the build of a proof: it passes what makes it end with 0."""

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pvg_hf.noise.verdicts import Problem, Verdict

_NOT_RUN = (126, 127)  # what a shell says of a command that cannot be executed, or is not there
_SHOWN = 500  # characters of an error


class CommandChecker:
    """
    Runs a command for each solution, in a process group of its own, which is killed as a whole when the time is over. The
    exit code 0 passes the solution and any other rejects it; a command that cannot be run, or dies of a signal, is an
    error.

    Args:
        command (`Sequence[str]`):
            Program and arguments. `{solution}` becomes the path of a file with the text, `{problem}` that of a JSON file
            with the problem's columns.

    Raises:
        ValueError: if it is empty, or names neither file.
    """

    def __init__(self, command: Sequence[str]):
        if not command:
            raise ValueError("The checker's `command` is empty; give a program and its arguments.")
        if not any("{solution}" in part for part in command):
            raise ValueError(
                f"The checker's `command` is {list(command)}, which never reads the solution: put `{{solution}}`, the path "
                "of a file with its text, among the arguments."
            )
        self.command = list(command)

    def ask(self, problem: Problem, solution: str, budget_seconds: float) -> Verdict:
        with tempfile.TemporaryDirectory(prefix="pvg-check-") as folder:
            places = {"{solution}": Path(folder) / "solution.txt", "{problem}": Path(folder) / "problem.json"}
            try:
                places["{solution}"].write_text(solution, encoding="utf-8")
            except UnicodeEncodeError as err:  # half of a surrogate pair, which is no text that a program could read
                return Verdict(None, 0.0, f"UnicodeEncodeError: {err}")
            places["{problem}"].write_text(json.dumps(dict(problem), default=str), encoding="utf-8")
            return _run([_filled(part, places) for part in self.command], Path(folder) / "errors", budget_seconds)

    def close(self) -> None:
        """A command is over when it is judged."""


def _filled(part: str, places: dict[str, Path]) -> str:
    for name, path in places.items():
        part = part.replace(name, str(path))
    return part


def _run(command: list[str], errors: Path, budget_seconds: float) -> Verdict:
    started = time.monotonic()
    with errors.open("wb") as stream:  # a file, as a pipe that a grandchild holds is never at its end
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stream, start_new_session=True
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
    if code < 0 or code in _NOT_RUN:
        told = errors.read_text(encoding="utf-8", errors="replace")[-_SHOWN:].strip()
        return Verdict(None, seconds, f"{command[0]!r} ended with {code}: {told or 'nothing was said'}")
    return Verdict(code == 0, seconds)


def end_group(group: int) -> None:
    """Kill what is left of a process group."""
    with suppress(ProcessLookupError):  # nothing is left
        os.killpg(group, signal.SIGKILL)
