"""The events of a phase's checks, and what they have cost before."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pvg_hf.config.checker import BudgetConfig
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.folder import partial_of, read_json
from pvg_hf.noise.ledger import Ledger
from pvg_hf.noise.telemetry import read_events

EVENTS, CHECKS = "events.jsonl", "checks.json"
_ORDER = ("bootstrap", "prover", "mint")  # phases that check, in the order of a round

Event = Mapping[str, Any]


class CheckLog:
    """
    `events.jsonl` of a phase's folder. The main process writes it; in the others it is a sink.

    Args:
        folder (`Path`):
            Of the phase, or of a part of it.
        is_main (`bool`):
            Whether this process writes.
    """

    def __init__(self, folder: Path, *, is_main: bool):
        self.path = folder / EVENTS
        self.is_main = is_main
        self._file = None

    def cut(self, step: int) -> list[Event]:
        """Drop the events of `step` and of those after it, and events of no step; the others are returned."""
        kept = [event for event in _whole_events(self.path) if event.get("step", step) < step]
        if self.is_main:
            self.close()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            temporary = self.path.with_name(f".{EVENTS}.partial")
            temporary.write_text("".join(json.dumps(event) + "\n" for event in kept), encoding="utf-8")
            temporary.replace(self.path)
            self._file = self.path.open("a", encoding="utf-8")
        return kept

    def write(self, line: str) -> None:
        if self._file is not None:
            self._file.write(line)

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _whole_events(path: Path) -> list[Event]:
    """Of a log whose last line a crash may have cut short."""
    if not path.exists():
        return []
    lines = path.read_bytes().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def open_ledger(context: PhaseContext, budget: BudgetConfig, known: Iterable[Event]) -> Ledger:
    """
    The budgets that solutions share, less what earlier phases have spent.

    Args:
        context ([`PhaseContext`]):
            The phase.
        budget ([`~pvg_hf.config.checker.BudgetConfig`]):
            Of the recipe.
        known (`Iterable[Mapping]`):
            Events of this phase.
    """
    if budget.per_round is None and budget.total is None:
        return Ledger()
    own_cost = sum(event["cost"] for event in known)
    earlier = _earlier_costs(context)
    in_round = sum(cost for (round_index, _), cost in earlier.items() if round_index == _place(context)[0])
    return Ledger(
        budget.per_round,
        budget.total,
        spent_in_round=in_round + own_cost,
        spent=sum(earlier.values()) + own_cost,
    )


def _place(context: PhaseContext) -> tuple[int, int]:
    round_index = -1 if context.phase.round_index is None else context.phase.round_index
    return round_index, _ORDER.index(context.phase.name)


def events_of_parts(context: PhaseContext) -> list[Event]:
    """Of the parts of this phase that are finished, as a role that is trained before the other."""
    parts = partial_of(context.phase.target(context.folder)).glob(f"[!.]*/{EVENTS}")
    return [event for part in sorted(parts) for event in read_events(part)]


def _earlier_costs(context: PhaseContext) -> dict[tuple[int, int], float]:
    """By round and phase."""
    costs: dict[tuple[int, int], float] = {}
    for path in sorted(context.folder.root.glob(f"[!.]*/[!.]*/{CHECKS}")):
        told = read_json(path)
        place = (told["round"], _ORDER.index(told["phase"]))
        if place < _place(context):
            costs[place] = told["cost"]
    return costs
