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

from pvg_hf.extensions import check_command
from pvg_hf.noise.verdicts import Problem, Verdict

KEPT_VARIABLES = frozenset(
    [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TERM",
        "TMPDIR",
        "TMP",
        "TEMP",
        "SYSTEMROOT",
        "LD_LIBRARY_PATH",
        "DYLD_LIBRARY_PATH",
        "PYTHONPATH",
        "PYTHONHOME",
        "PYTHONHASHSEED",
        "PYTHONUTF8",
        "PYTHONIOENCODING",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "ELAN_HOME",
        "XDG_CACHE_HOME",
        "HF_HOME",
        "HF_HUB_CACHE",
        "HF_HUB_OFFLINE",
        "HF_DATASETS_OFFLINE",
        "TRANSFORMERS_OFFLINE",
        "CUDA_HOME",
        "CUDA_VISIBLE_DEVICES",
    ]
)
"""Environment variables that every checker sees: those that programs need to be found, to start and to read text."""
_KEPT_PREFIXES = ("LC_", "OMP_", "MKL_")
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
        env (`Sequence[str]`, *optional*):
            Names of environment variables that the command sees besides `KEPT_VARIABLES`.

    Raises:
        ValueError: if it is empty, or names neither file.
        UntrustedCodeError: if a pulled recipe names it, and the user does not trust it yet.
    """

    def __init__(self, command: Sequence[str], env: Sequence[str] = ()):
        if not command:
            raise ValueError("The checker's `command` is empty; give a program and its arguments.")
        if not any("{solution}" in part for part in command):
            raise ValueError(
                f"The checker's `command` is {list(command)}, which never reads the solution: put `{{solution}}`, the path "
                "of a file with its text, among the arguments."
            )
        check_command(command)
        self.command = list(command)
        self.env = tuple(env)

    def ask(self, problem: Problem, solution: str, budget_seconds: float) -> Verdict:
        with tempfile.TemporaryDirectory(prefix="pvg-check-") as folder:
            places = {"{solution}": Path(folder) / "solution.txt", "{problem}": Path(folder) / "problem.json"}
            try:
                places["{solution}"].write_text(solution, encoding="utf-8")
            except UnicodeEncodeError as err:  # half of a surrogate pair, which is no text that a program could read
                return Verdict(None, 0.0, f"UnicodeEncodeError: {err}")
            places["{problem}"].write_text(json.dumps(dict(problem), default=str), encoding="utf-8")
            command = [_filled(part, places) for part in self.command]
            return _run(command, Path(folder) / "errors", budget_seconds, checker_environment(self.env))

    def close(self) -> None:
        """A command is over when it is judged."""


def _filled(part: str, places: dict[str, Path]) -> str:
    for name, path in places.items():
        part = part.replace(name, str(path))
    return part


def checker_environment(passed: Sequence[str] = ()) -> dict[str, str]:
    """
    What a checker sees of this process's environment. It judges, and may execute, what a model wrote, so that it is given no
    tokens, keys or passwords.

    Args:
        passed (`Sequence[str]`, *optional*):
            Names of further variables, as far as they are set.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if name in KEPT_VARIABLES or name.startswith(_KEPT_PREFIXES) or name in passed
    }


def _run(command: list[str], errors: Path, budget_seconds: float, environment: dict[str, str]) -> Verdict:
    started = time.monotonic()
    with errors.open("wb") as stream:  # a file, as a pipe that a grandchild holds is never at its end
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
    if code < 0 or code in _NOT_RUN:
        told = errors.read_text(encoding="utf-8", errors="replace")[-_SHOWN:].strip()
        return Verdict(None, seconds, f"{command[0]!r} ended with {code}: {told or 'nothing was said'}")
    return Verdict(code == 0, seconds)


def end_group(group: int) -> None:
    """Kill what is left of a process group."""
    with suppress(ProcessLookupError):  # nothing is left
        os.killpg(group, signal.SIGKILL)
