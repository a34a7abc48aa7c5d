"""What a phase's checks came to: its `checks.json`, and figures for the metrics."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pvg_hf.evaluation.checks import NoiseRate, escalation_rates, noise_rates
from pvg_hf.evaluation.intervals import Figure
from pvg_hf.game.check_log import CHECKS, EVENTS
from pvg_hf.game.checking import make_routes
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.folder import write_json
from pvg_hf.noise.channel import routed_channel
from pvg_hf.noise.routes import Routes
from pvg_hf.noise.telemetry import CheckCounts, count_checks, read_events
from pvg_hf.noise.tiers import Tier


def summarize_checks(context: PhaseContext, output: Path) -> None:
    """Write `checks.json` and record the metrics of a phase, from its events; nothing where there was no check."""
    logs = sorted([output / EVENTS, *output.glob(f"[!.]*/{EVENTS}")])
    logs = [log for log in logs if log.exists()]
    if not logs or not context.processes.is_main_process:
        return
    counts = count_checks(event for log in logs for event in read_events(log))
    routes = make_routes(context.recipe.noise.checker)
    rates = noise_rates(counts, _configured(routes, counts))
    escalations = escalation_rates(counts)
    place = {"phase": context.phase.name, "round": -1 if context.phase.round_index is None else context.round_index}
    channels = {name: asdict(routed_channel(routing)) for name, routing in _routings(routes).items()}
    write_json(
        output / CHECKS,
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


def _metrics(counts: CheckCounts, rates: list[NoiseRate], escalations: dict[str, Figure]) -> Iterator[tuple[str, Any]]:
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


def _configured(routes: Routes, counts: CheckCounts) -> dict[tuple[str, str], Tier]:
    """The tiers that stand behind the counts."""
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
