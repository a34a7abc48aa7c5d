"""
Imperfect labels and imperfect checkers. Every draw is derived from a seed and a path of names, or comes from a
generator that the caller passes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pvg_hf.config.noise_section import Duration, RateSchedule
    from pvg_hf.noise.channel import RoutedChannel, routed_channel
    from pvg_hf.noise.imperfect_checker import CheckerOutcome, ImperfectChecker, RealClock, VirtualClock
    from pvg_hf.noise.processes import CommandChecker, WorkerChecker
    from pvg_hf.noise.rates import (
        PairOutcomeRates,
        effective_label,
        flip_labels,
        flip_labels_by_uniforms,
        pair_flip_rate,
        pair_outcome_rates,
    )
    from pvg_hf.noise.routing import DEFAULT_TIERS, Ledger, Routes, Routing, Tier

# Names are imported on first use, so that a checker's worker process does not import torch.
_NAMES = {
    "pvg_hf.config.noise_section": ("Duration", "RateSchedule"),
    "pvg_hf.noise.channel": ("RoutedChannel", "routed_channel"),
    "pvg_hf.noise.imperfect_checker": ("CheckerOutcome", "ImperfectChecker", "RealClock", "VirtualClock"),
    "pvg_hf.noise.processes": ("CommandChecker", "WorkerChecker"),
    "pvg_hf.noise.routing": ("DEFAULT_TIERS", "Ledger", "Routes", "Routing", "Tier"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "DEFAULT_TIERS",
    "CheckerOutcome",
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
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return vars(import_module(_MODULES.get(name, "pvg_hf.noise.rates")))[name]


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
