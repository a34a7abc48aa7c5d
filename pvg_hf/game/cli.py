"""Exit statuses and messages of the commands that play games."""

import sys
from collections.abc import Callable

from pvg_hf.core.hub_access import HubError
from pvg_hf.game.interrupt import GameInterrupted
from pvg_hf.game.limits import DiskFullError, OutOfMemory
from pvg_hf.run.console import print_result
from pvg_hf.run.environment import command_line
from pvg_hf.run.jobs import JobsFailedError

ENDING_ERRORS = (ValueError, FloatingPointError, OSError, OutOfMemory, JobsFailedError, HubError)
"""Errors that end a command with their message; any other one is a defect and keeps its traceback."""

_HIDDEN = (*range(9), *range(11, 32), *range(127, 160), 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_SHOWN = {code: f"\\u{code:04x}" for code in _HIDDEN}  # characters by which a file could rewrite a terminal

INTERRUPTED = 130  # the shell's exit status of a program that Ctrl-C ended


def run_command(work: Callable[[], str]) -> int:
    """
    Run a function that plays games, print the text that it returns (unless it is empty), and return the exit status.

    If `work` is called again, it resumes. It loads torch and other large libraries only after it has checked its
    arguments.
    """
    try:
        text = work()
    except ENDING_ERRORS as err:
        return report_error(err)
    except (GameInterrupted, KeyboardInterrupt):
        sys.stderr.write(f"Stopped; finished work is kept. Resume with: {command_line()}\n")
        return INTERRUPTED
    if text:
        print_result(text)
    return 0


def report_error(err: Exception) -> int:
    """
    Print one of the `ENDING_ERRORS`, with the command if the same one is to be given again, and return the exit
    status.
    """
    is_repeated = isinstance(err, DiskFullError | JobsFailedError)
    has_place = isinstance(err, OSError) and err.filename is not None and err.strerror is not None
    text = f"{err.filename}: {err.strerror}." if isinstance(err, OSError) and has_place else str(err)
    text = text.translate(_SHOWN)
    sys.stderr.write(f"error: {text}{f' The command was: {command_line()}' if is_repeated else ''}\n")
    return 2
