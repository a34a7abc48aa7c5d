"""Outcomes of checks, back from their events."""

from collections.abc import Iterable, Mapping
from typing import Any

from pvg_hf.noise.checker import CheckOutcome
from pvg_hf.noise.routing import Call
from pvg_hf.outcomes import Outcome


def recall_outcomes(events: Iterable[Mapping[str, Any]]) -> dict[tuple[int, int], CheckOutcome]:
    """
    Args:
        events (`Iterable[Mapping]`):
            As they were written.

    Returns:
        `dict[tuple[int, int], CheckOutcome]`: by round and [`~pvg_hf.noise.draws.solution_key`].
    """
    of_solution: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for event in events:
        of_solution.setdefault((event["round"], int(event["solution"], 16)), []).append(event)
    return {key: _outcome(of_one) for key, of_one in of_solution.items()}


def _outcome(events: list[Mapping[str, Any]]) -> CheckOutcome:
    calls = tuple(
        Call(event["tier"], Outcome(event["code"]), event["noise"], event["duration_ms"], event["cost"])
        for event in events
    )
    return CheckOutcome.of(calls, truth=events[-1]["truth"], error=events[-1].get("detail"))
