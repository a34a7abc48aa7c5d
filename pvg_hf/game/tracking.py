"""One tracker run for a whole game: Trackio, Weights & Biases or TensorBoard, as the game is played."""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from accelerate import PartialState
from accelerate.tracking import LOGGER_TYPE_TO_CLASS, GeneralTracker

from pvg_hf.config import Recipe
from pvg_hf.core.files import write_json
from pvg_hf.core.integrity import read_json
from pvg_hf.run.folder import RunFolder


@dataclass(frozen=True)
class GameTracker:
    """
    Args:
        trackers (`list[GeneralTracker]`, *optional*):
            Whom to tell; nobody by default.
    """

    trackers: list[GeneralTracker] = field(default_factory=list)

    def log(self, values: Mapping[str, Any], *, game_step: int) -> None:
        """Tell the figures among `values`, at a place on the game's continuous step axis."""
        figures = {key: value for key, value in values.items() if isinstance(value, int | float)}
        for tracker in self.trackers:
            tracker.log(figures, step=game_step)


@contextmanager
def open_tracker(recipe: Recipe, folder: RunFolder) -> Iterator[GameTracker]:
    """
    Open the game's tracker run, or go on with it where the game is continued; steps that are then taken once more are
    told once more. Processes other than the main one tell nothing.

    Args:
        recipe ([`Recipe`]):
            Its `logging` section says to whom.
        folder ([`RunFolder`]):
            Keeps the tracker run's id.
    """
    if not PartialState().is_main_process:
        yield GameTracker()
        return
    trackers = [_make(name, recipe, folder) for name in recipe.logging.report_to]
    try:
        yield GameTracker(trackers)
    finally:
        for tracker in trackers:
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
    """Two runs of one name are two runs, so the id is drawn, and kept for when the run is continued."""
    kept = folder.root / "tracking.json"
    if not kept.exists():
        write_json(kept, {"id": secrets.token_hex(4)})
    return read_json(kept, remedy="Delete it: the trackers then begin another run, and the game goes on.")["id"]
