"""
Imperfect labels and imperfect checkers. Every draw is derived from a seed and a path of names, or comes from a generator
that the caller hands over.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pvg_hf.noise.channel import RoutedChannel, routed_channel
    from pvg_hf.noise.checker import CheckOutcome, ImperfectChecker
    from pvg_hf.noise.clock import RealClock, VirtualClock
    from pvg_hf.noise.command import CommandChecker
    from pvg_hf.noise.durations import Duration
    from pvg_hf.noise.labels import effective_label, flip_labels, flip_labels_by_uniforms
    from pvg_hf.noise.ledger import Ledger
    from pvg_hf.noise.rates import PairOutcomeRates, pair_flip_rate, pair_outcome_rates
    from pvg_hf.noise.routes import Routes
    from pvg_hf.noise.routing import Routing
    from pvg_hf.noise.schedules import RateSchedule
    from pvg_hf.noise.tiers import DEFAULT_TIERS, Tier
    from pvg_hf.noise.worker import WorkerChecker

# Names are imported when they are first asked for: a checker's worker process does not wait for torch.
_MODULES = {
    "DEFAULT_TIERS": "tiers",
    "CheckOutcome": "checker",
    "CommandChecker": "command",
    "Duration": "durations",
    "ImperfectChecker": "checker",
    "Ledger": "ledger",
    "PairOutcomeRates": "rates",
    "RateSchedule": "schedules",
    "RealClock": "clock",
    "RoutedChannel": "channel",
    "Routes": "routes",
    "Routing": "routing",
    "Tier": "tiers",
    "VirtualClock": "clock",
    "WorkerChecker": "worker",
    "effective_label": "labels",
    "flip_labels": "labels",
    "flip_labels_by_uniforms": "labels",
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
