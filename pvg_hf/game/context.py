"""The context of a phase: recipe, run, problems, seeds, metrics and events."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from accelerate import PartialState

from pvg_hf.config import Recipe
from pvg_hf.core.disk_names import round_name
from pvg_hf.core.seeding import derive_seed
from pvg_hf.data.problems import GameProblems
from pvg_hf.game.interrupt import StopRequest
from pvg_hf.game.players import PlayerLoader
from pvg_hf.game.tracking import GameTracker
from pvg_hf.run.layout import PhaseKey, RunFolder


@dataclass
class PhaseContext:
    """
    Context of a phase: the round's recipe, the run's folder, the problems, and where figures are recorded.

    Args:
        recipe ([`Recipe`]):
            Recipe with the round's overrides applied.
        folder ([`RunFolder`]):
            Folder of the run.
        phase ([`PhaseKey`]):
            The phase.
        problems ([`GameProblems`]):
            The task and its problems.
        stop ([`StopRequest`]):
            Whether the user asked to stop.
        steps (`range`):
            Range of the phase on the game's continuous step axis.
        tracker ([`GameTracker`]):
            Receives every figure immediately.
        metrics (`list[dict]`):
            Lines for `metrics.jsonl`; the phase appends to them.
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
