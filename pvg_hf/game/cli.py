"""Command-line entry points: play a run, print where its report is, and return an exit status."""

import gc
import logging
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pvg_hf.config import Recipe
from pvg_hf.game.interrupt import GameInterrupted
from pvg_hf.game.limits import DiskFullError, OutOfMemory
from pvg_hf.game.status import describe_stop
from pvg_hf.run.console import is_main_process, print_result
from pvg_hf.run.environment import command_line, has_default_threads, num_cores
from pvg_hf.run.jobs import JobsFailedError
from pvg_hf.run.layout import RunFolder

if TYPE_CHECKING:
    from pvg_hf.game.context import GameCallback

logger = logging.getLogger(__name__)

ENDING_ERRORS = (ValueError, FloatingPointError, DiskFullError, OutOfMemory, JobsFailedError)
"""Errors that end a command with their message; any other one is a defect and keeps its traceback."""

INTERRUPTED = 130  # the shell's exit status of a program that Ctrl-C ended


def run_game(
    recipe: Recipe, *, phase: str | None, round_index: int | None, callbacks: "Sequence[GameCallback]" = ()
) -> int:
    """Play a game, log where its report is or how to resume, and return the exit status."""
    # Imported late: loading torch takes seconds, and the other functions do not need it.
    from accelerate import PartialState

    from pvg_hf.game.play import play

    _use_all_cores()
    logger.info("Playing %s into %s", recipe.name, RunFolder.of(recipe).root)
    try:
        folder = play(recipe, phase=phase, round_index=round_index, callbacks=callbacks)
    except GameInterrupted:
        logger.warning("Stopped. %s", describe_stop(recipe))
        if is_main_process():  # not by the log, which breaks long lines on a terminal
            sys.stderr.write(f"Continue with the same command: {command_line()}\n")
        gc.freeze()  # else the interpreter looks through all objects of the libraries before it ends, which takes seconds
        return INTERRUPTED
    if PartialState().is_main_process:
        report = folder.report
        logger.info("Report: %s", report if report.exists() else f"none; the run is in {folder.root}")
    return 0


def _use_all_cores() -> None:
    import torch

    if has_default_threads() and not torch.cuda.is_available():  # no other process competes for the cores
        torch.set_num_threads(num_cores())


def run_pilot(recipe: Recipe) -> int:
    """Run the pilot of a game alone, or read the one that is kept; print it, and return the exit status."""
    from accelerate import PartialState

    from pvg_hf.game.play import play
    from pvg_hf.report.pilot_findings import Pilot

    _use_all_cores()
    try:
        folder = play(recipe, only_pilot=True)
    except GameInterrupted:
        logger.warning("Stopped; nothing of the pilot is kept.")
        gc.freeze()  # as in `run_game`
        return INTERRUPTED
    pilot = Pilot(recipe, folder.read_pilot()["rows"])
    if PartialState().is_main_process:
        print_result(pilot.describe())
    pilot.check()
    return 0


def run_command(work: Callable[[], str]) -> int:
    """
    Run a function that plays games, print the text that it returns, and return the exit status.

    Args:
        work: The function. If it is called again, it resumes. An empty text is not printed. It loads torch and other
            large libraries only after it has checked its arguments.
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
    """Print one of the `ENDING_ERRORS`, with the command if the same one is to be given again, and return the exit status."""
    is_repeated = isinstance(err, DiskFullError | JobsFailedError)
    sys.stderr.write(f"error: {err}{f' The command was: {command_line()}' if is_repeated else ''}\n")
    return 2
