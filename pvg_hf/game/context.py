"""The context of a phase: recipe, run, problems, seeds, and where metrics and events are recorded."""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from accelerate import PartialState
from accelerate.tracking import LOGGER_TYPE_TO_CLASS, GeneralTracker

from pvg_hf.config import Recipe
from pvg_hf.core.afterwards import only_warning
from pvg_hf.core.commands import delete_command
from pvg_hf.core.disk_names import round_name
from pvg_hf.core.files import write_json
from pvg_hf.core.integrity import read_json
from pvg_hf.core.seeding import derive_seed
from pvg_hf.data.problems import GameProblems
from pvg_hf.game.interrupt import StopRequest
from pvg_hf.game.players import PlayerLoader
from pvg_hf.run.layout import PhaseKey, RunFolder


@dataclass(frozen=True)
class GameTracker:
    """Trackers of a game. One that fails after its start only causes warnings: the run's folder has all figures."""

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


@dataclass
class PhaseContext:
    """
    Context of a phase: the round's recipe, the run's folder, the problems, and where figures are recorded.

    Args:
        steps: Range of the phase on the game's continuous step axis.
    """

    recipe: Recipe
    folder: RunFolder
    phase: PhaseKey
    problems: GameProblems
    stop: StopRequest
    steps: range = range(0)
    tracker: GameTracker = field(default_factory=GameTracker)
    metrics: list[dict[str, Any]] = field(default_factory=list)

    @cached_property
    def players(self) -> PlayerLoader:
        return PlayerLoader(self.recipe, self.folder)

    @property
    def processes(self) -> PartialState:
        return self.players.processes

    @property
    def round_index(self) -> int:
        assert self.phase.round_index is not None
        return self.phase.round_index

    def seed(self, *path: object) -> int:
        """Derive a seed of this phase from a path of names."""
        return derive_seed(self.recipe.seed, *self.seed_path, *path)

    @property
    def seed_path(self) -> tuple[str, ...]:
        if self.phase.round_index is None:
            return (self.phase.name,)
        return (round_name(self.phase.round_index), self.phase.name)

    def record(self, values: Mapping[str, Any], *, step: int | None = None, is_tracked: bool = False) -> None:
        """
        Add a line to the run's metrics, and send it to the tracker unless `is_tracked`.

        Without a step, the line belongs to the phase's end.
        """
        game_step = self._game_step(step)
        place = {"game_step": game_step, "phase": self.phase.name, "round": self.phase.round_index, "step": step}
        self.metrics.append({**place, **values})
        if not is_tracked:
            self.track(values, step=step)

    def track(self, values: Mapping[str, Any], *, step: int | None = None) -> None:
        """Send values only to the tracker."""
        self.tracker.log(values, game_step=self._game_step(step))

    def _game_step(self, step: int | None) -> int:
        return self.steps.stop if step is None else self.steps.start + step

    def event(self, event: str, **fields: Any) -> None:
        """Add a line of this phase to the run's event log."""
        if self.processes.is_main_process:
            self.folder.log_event(event, phase=self.phase.name, round=self.phase.round_index, **fields)

    def alert(self, kind: str, message: str) -> None:
        """Report a problem that does not stop the game; a resumed phase does not report it again."""
        fields = {"phase": self.phase.name, "round": self.phase.round_index, "kind": kind, "message": message}
        if self.processes.is_main_process and not self.folder.has_event("alert", **fields):
            self.folder.log_event("alert", **fields)

    def alerts(self) -> list[dict[str, Any]]:
        """Alerts of this phase and its earlier starts, with `time`, `kind` and `message`; those about the Hub are left out."""
        place = {"event": "alert", "phase": self.phase.name, "round": self.phase.round_index}
        found = [event for event in self.folder.read_events()[0] if place.items() <= event.items()]
        return [
            {name: event[name] for name in ("time", "kind", "message")} for event in found if event["kind"] != "hub"
        ]


class GameCallback:
    """Base class of callbacks for [`play`]; a subclass may override any of its methods."""

    def on_phase_begin(self, context: PhaseContext) -> None:
        """Called before a phase is played, on every process."""

    def on_phase_end(self, context: PhaseContext) -> None:
        """Called after a phase's results appeared in the run's folder."""
