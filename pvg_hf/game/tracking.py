"""Reports a game to Trackio, Weights & Biases or TensorBoard, as one tracker run for the whole game."""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from accelerate import PartialState
from accelerate.tracking import LOGGER_TYPE_TO_CLASS, GeneralTracker

from pvg_hf.config import Recipe
from pvg_hf.core.afterwards import only_warning
from pvg_hf.core.commands import delete_command
from pvg_hf.core.files import write_json
from pvg_hf.core.integrity import read_json
from pvg_hf.run.layout import RunFolder


@dataclass(frozen=True)
class GameTracker:
    """
    Trackers of a game. One that fails after its start only causes warnings: the run's folder has all figures.

    Args:
        trackers (`list[GeneralTracker]`, *optional*):
            The trackers; none by default.
    """

    trackers: list[GeneralTracker] = field(default_factory=list)

    def log(self, values: Mapping[str, Any], *, game_step: int) -> None:
        """Log the numbers in `values` at a step of the game's continuous step axis."""
        figures = {key: value for key, value in values.items() if isinstance(value, int | float)}
        for tracker in self.trackers:
            with only_warning(f"{tracker.name} did not take the figures of step {game_step}; the game continues"):
                tracker.log(figures, step=game_step)


@contextmanager
def open_tracker(recipe: Recipe, folder: RunFolder) -> Iterator[GameTracker]:
    """
    Open or resume the game's tracker run. Only the main process logs.

    Steps that a resumed game repeats are logged again.

    Args:
        recipe ([`Recipe`]):
            Recipe, whose section `logging` names the trackers.
        folder ([`RunFolder`]):
            The run's folder, which stores the tracker run's id.
    """
    if not PartialState().is_main_process:
        yield GameTracker()
        return
    trackers = [_make(name, recipe, folder) for name in recipe.logging.report_to]
    try:
        yield GameTracker(trackers)
    finally:
        for tracker in trackers:
            with only_warning(f"{tracker.name} could not be closed; the run's folder has all figures"):
                tracker.finish()


def _make(name: str, recipe: Recipe, folder: RunFolder) -> GeneralTracker:
    run_id = _run_id(folder)
    settings: dict[str, dict[str, Any]] = {
        "trackio": {"name": f"{recipe.name}-{run_id}", "resume": "allow"},
        "wandb": {"name": recipe.name, "id": run_id, "resume": "allow", "dir": str(folder.root)},
        "tensorboard": {"logging_dir": str(folder.root / "tensorboard")},
    }
    project = "" if name == "tensorboard" else recipe.logging.project
    tracker = LOGGER_TYPE_TO_CLASS[name](project, **settings[name])
    tracker.start()
    return tracker


def _run_id(folder: RunFolder) -> str:
    # The id is random, because two games may have the same name. It is stored for when the game is resumed.
    kept = folder.root / "tracking.json"
    if not kept.exists():
        write_json(kept, {"id": secrets.token_hex(4)})
    remedy = f"Delete it by `{delete_command(kept)}`: the trackers then start another run, and the game continues."
    return read_json(kept, remedy=remedy)["id"]
