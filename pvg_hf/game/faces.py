"""What `scripts/run_rounds.py` says of a game: while playing, of what would be played, and of what stands already."""

import logging
import shlex
import sys
from pathlib import Path

from accelerate import PartialState

from pvg_hf.config import Recipe
from pvg_hf.game.folder import RunFolder
from pvg_hf.game.interrupt import GameInterrupted
from pvg_hf.game.play import play
from pvg_hf.game.schedule import schedule

logger = logging.getLogger(__name__)

INTERRUPTED = 130  # the shell's exit status of a program that Ctrl-C ended


def play_and_tell(recipe: Recipe, *, phase: str | None, round_index: int | None) -> int:
    """Play, and end by naming the report, or how to go on; returns the exit status."""
    try:
        folder = play(recipe, phase=phase, round_index=round_index)
    except GameInterrupted:
        logger.warning("Stopped; everything finished is kept. Continue with the same command: %s", _command())
        return INTERRUPTED
    if PartialState().is_main_process:
        report = folder.root / "report.html"
        logger.info("Report: %s", report if report.exists() else f"none yet; the run is in {folder.root}")
    return 0


def _command() -> str:
    return shlex.join([Path(sys.executable).name, *sys.argv])


def describe_status(recipe: Recipe) -> str:
    """What the run's folder holds, a line per phase."""
    folder = RunFolder(Path(recipe.output_dir) / recipe.name)
    if not folder.root.exists():
        return f"{folder.root} does not exist: nothing was played yet."
    lines = [f"{folder.root}"]
    for key in schedule(recipe):
        target = key.target(folder)
        is_begun = (target.parent / f".{target.name}.partial").exists()
        state = "finished" if target.exists() else "begun" if is_begun else "to do"
        lines.append(f"  {key!s:24} {state}")
    return "\n".join(lines)


def describe_plan(recipe: Recipe) -> str:
    """Phases, sizes and costs."""
    return "\n".join(str(key) for key in schedule(recipe))
