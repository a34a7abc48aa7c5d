"""
Imperfect labels and imperfect checkers. Every draw is derived from a seed and a path of names, or comes from a generator
that the caller hands over.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pvg_hf.noise.channel import RoutedChannel, routed_channel
    from pvg_hf.noise.checker import CheckOutcome, ImperfectChecker, RealClock, VirtualClock
    from pvg_hf.noise.ledger import Ledger
    from pvg_hf.noise.processes import CommandChecker, WorkerChecker
    from pvg_hf.noise.rates import (
        PairOutcomeRates,
        RateSchedule,
        effective_label,
        flip_labels,
        flip_labels_by_uniforms,
        pair_flip_rate,
        pair_outcome_rates,
    )
    from pvg_hf.noise.routing import DEFAULT_TIERS, Duration, Routes, Routing, Tier

# Names are imported when they are first asked for: a checker's worker process does not wait for torch.
_MODULES = {
    "DEFAULT_TIERS": "routing",
    "CheckOutcome": "checker",
    "CommandChecker": "processes",
    "Duration": "routing",
    "ImperfectChecker": "checker",
    "Ledger": "ledger",
    "PairOutcomeRates": "rates",
    "RateSchedule": "rates",
    "RealClock": "checker",
    "RoutedChannel": "channel",
    "Routes": "routing",
    "Routing": "routing",
    "Tier": "routing",
    "VirtualClock": "checker",
    "WorkerChecker": "processes",
    "effective_label": "rates",
    "flip_labels": "rates",
    "flip_labels_by_uniforms": "rates",
    "pair_flip_rate": "rates",
    "pair_outcome_rates": "rates",
    "routed_channel": "channel",
}

__all__ = [
    "DEFAULT_TIERS",
    "CheckOutcome",
    "CommandChecker",
    "Duration",
    "ImperfectChecker",
    "Ledger",
    "PairOutcomeRates",
    "RateSchedule",
    "RealClock",
    "RoutedChannel",
    "Routes",
    "Routing",
    "Tier",
    "VirtualClock",
    "WorkerChecker",
    "effective_label",
    "flip_labels",
    "flip_labels_by_uniforms",
    "pair_flip_rate",
    "pair_outcome_rates",
    "routed_channel",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return vars(import_module(f"{__name__}.{_MODULES[name]}"))[name]


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
