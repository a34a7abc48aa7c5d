"""Calls of an imperfect checker in a phase: their log, their costs and their summary."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pvg_hf.config.noise_section import BudgetConfig
from pvg_hf.core.figure import Figure
from pvg_hf.core.files import Journal, write_json
from pvg_hf.core.integrity import read_json
from pvg_hf.evaluation.noise_rates import NoiseRate, escalation_rates, noise_rates
from pvg_hf.game.context import PhaseContext
from pvg_hf.noise.channel import routed_channel
from pvg_hf.noise.ledger import Ledger
from pvg_hf.noise.routing import Routes, Tier, make_routes
from pvg_hf.noise.telemetry import CallCounts, count_calls, read_events
from pvg_hf.run.layout import CALL_SUMMARY, EVENTS, PhaseKey, RunFolder, partial_of

CallEvent = Mapping[str, Any]


class CallLog:
    """
    Log of a checker's calls, `events.jsonl` in a phase's folder. Only the main process writes it.

    Args:
        folder (`Path`):
            Folder of the phase, or of a part of it.
        is_main (`bool`):
            Whether this process writes.
    """

    def __init__(self, folder: Path, *, is_main: bool):
        self.path = folder / EVENTS
        self.is_main = is_main
        self._lines: list[str] = []

    def cut(self, step: int) -> list[CallEvent]:
        """Drop events of `step` and later steps, and events without a step; return the others."""

        def is_earlier(event: CallEvent) -> bool:
            return event.get("step", step) < step

        journal = Journal(self.path)
        kept = [event for event in journal.scan()[0] if is_earlier(event)]
        if self.is_main:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch()
            journal.keep(is_earlier)
        return kept

    def write(self, line: str) -> None:
        if self.is_main:
            self._lines.append(line)

    def flush(self) -> None:
        if self._lines:
            Journal(self.path).append_lines("".join(self._lines))
            self._lines.clear()


def open_ledger(folder: RunFolder, phase: PhaseKey, budget: BudgetConfig, known: Iterable[CallEvent]) -> Ledger:
    """
    Open the ledger of the checker's shared budgets, minus the spending of earlier phases.

    Args:
        folder ([`RunFolder`]):
            Folder of the run.
        phase ([`PhaseKey`]):
            The phase.
        budget ([`~pvg_hf.config.noise_section.BudgetConfig`]):
            Budgets of the recipe.
        known (`Iterable[Mapping]`):
            Events of this phase so far.
    """
    if budget.per_round is None and budget.total is None:
        return Ledger()
    # Spending is computed from the events on disk, so that a resumed phase has the same budget left.
    own_cost = sum(event["cost"] for event in known)
    earlier = _earlier_costs(folder, phase)
    in_round = sum(cost for (round_index, _), cost in earlier.items() if round_index == phase.place[0])
    return Ledger(
        budget.per_round,
        budget.total,
        spent_in_round=in_round + own_cost,
        spent=sum(earlier.values()) + own_cost,
    )


def events_of_parts(folder: RunFolder, phase: PhaseKey) -> list[CallEvent]:
    """Events of the finished parts of a running phase, such as a role that is trained before the other."""
    parts = partial_of(phase.target(folder)).glob(f"[!.]*/{EVENTS}")
    return [event for part in sorted(parts) for event in read_events(part)]


def _earlier_costs(folder: RunFolder, phase: PhaseKey) -> dict[tuple[int, int], float]:
    """Costs of the phases before `phase`, by round and phase."""
    costs: dict[tuple[int, int], float] = {}
    for path in folder.call_summaries():
        summary = read_json(path)
        place = PhaseKey(summary["phase"], summary["round"]).place
        if place < phase.place:
            costs[place] = summary["cost"]
    return costs


def summarize_calls(context: PhaseContext, output: Path) -> None:
    """Write `checks.json` and record metrics from a phase's checker events, if there are any."""
    # A phase with separate sub-phases has one log per sub-phase.
    logs = sorted([output / EVENTS, *output.glob(f"[!.]*/{EVENTS}")])
    logs = [log for log in logs if log.exists()]
    if not logs or not context.processes.is_main_process:
        return
    counts = count_calls(event for log in logs for event in read_events(log))
    routes = make_routes(context.recipe.noise.checker)
    rates = noise_rates(counts, _configured_tiers(routes, counts))
    escalations = escalation_rates(counts)
    place = {"phase": context.phase.name, "round": context.phase.place[0]}
    channels = {name: asdict(routed_channel(routing)) for name, routing in _routings(routes).items()}
    write_json(
        output / CALL_SUMMARY,
        {
            **place,
            "calls": counts.num_calls,
            "codes": counts.codes,
            "flagged": counts.num_flagged,
            "abstained": counts.num_abstentions,
            "cost": counts.cost,
            "duration_ms": counts.duration_ms,
            "digest": counts.digest,
            "rates": [one.to_dict() for one in rates],
            "escalations": {name: figure.to_dict() for name, figure in escalations.items()},
            "channels": channels,
        },
    )
    context.record(dict(_metrics(counts, rates, escalations)))


def _metrics(counts: CallCounts, rates: list[NoiseRate], escalations: dict[str, Figure]) -> Iterator[tuple[str, Any]]:
    yield "verifier.check.count", counts.num_calls
    yield "verifier.check.cost", counts.cost
    for one in rates:
        key = f"verifier.noise.{one.noise}.rate/{one.tier}/{one.slice}"
        yield key, one.figure.value
        yield from ((f"{key}/{name}", vars(one.figure)[name]) for name in ("low", "high", "n"))
        yield f"{key}/configured", one.configured
    for transition, figure in escalations.items():
        name = transition.replace("->", "_to_")
        yield f"verifier.escalation.count/{name}", figure.n
        yield f"verifier.escalation.success_rate/{name}", figure.value


def _configured_tiers(routes: Routes, counts: CallCounts) -> dict[tuple[str, str], Tier]:
    configured = {}
    for _, tier, of_slice in counts.trials:
        routing = routes.slices.get(of_slice, routes.routing)
        found = routing.tiers[routing.place_of(tier)]
        configured[tier, of_slice] = found if routing.noise_enabled else found.without_noise()
    return configured


def _routings(routes: Routes) -> dict[str, Any]:
    ways = {"all": routes.routing, **routes.slices}
    critical = {f"{name}, critical": way.critical() for name, way in ways.items()} if routes.critical else {}
    return ways | critical
