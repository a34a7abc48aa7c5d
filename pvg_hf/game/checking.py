"""From the section `noise.checker` of a recipe to the checker that it describes."""

from dataclasses import asdict, replace

from pvg_hf.config.checker import CheckerConfig, SliceConfig, TierConfig, TiersConfig
from pvg_hf.extensions import NamedCode, refuse_withheld
from pvg_hf.noise.clock import RealClock, VirtualClock
from pvg_hf.noise.command import CommandChecker
from pvg_hf.noise.durations import Duration
from pvg_hf.noise.routes import Routes
from pvg_hf.noise.routing import Routing
from pvg_hf.noise.tiers import DEFAULT_TIERS, Tier
from pvg_hf.noise.verdicts import BaseChecker
from pvg_hf.noise.worker import WorkerChecker


def make_routes(config: CheckerConfig) -> Routes:
    """
    Raises:
        ValueError: for rates that leave nothing of the truth, a tier that is not there, or a condition that cannot be read.
    """
    tiers = _override(DEFAULT_TIERS, config.tiers)
    routing = Routing(
        tuple(tiers.values()),
        config.escalation_policy,
        config.tier,
        config.max_attempts,
        config.budget.per_solution,
        config.noise_enabled,
    )
    slices = {name: _route_slice(routing, tiers, override) for name, override in config.slices.items()}
    return Routes(routing, slice_by=config.slice_by, slices=slices, critical=config.critical)


def make_base(config: CheckerConfig) -> BaseChecker | None:
    """What stands behind the noise; `None` for the task's own grade, which is known already."""
    if config.base == "grade":
        return None
    if config.env:
        refuse_withheld([NamedCode.of("noise.checker.env", config.env)])
    if config.base == "command":
        return CommandChecker(config.command, config.env)
    return WorkerChecker(config.base, config.env)


def make_clock(config: CheckerConfig) -> VirtualClock:
    return RealClock() if config.clock == "real" else VirtualClock()


def _route_slice(routing: Routing, tiers: dict[str, Tier], config: SliceConfig) -> Routing:
    names = {"noise_enabled": "noise_enabled", "tier": "start", "escalation_policy": "escalation_policy"}
    names["max_attempts"] = "max_attempts"
    stated = {names[name]: value for name, value in vars(config).items() if name in names and value is not None}
    return replace(routing, tiers=tuple(_override(tiers, config.tiers).values()), **stated)


def _override(tiers: dict[str, Tier], config: TiersConfig) -> dict[str, Tier]:
    return {name: _override_tier(tier, vars(config)[name]) for name, tier in tiers.items()}


def _override_tier(tier: Tier, config: TierConfig) -> Tier:
    stated = {name: value for name, value in asdict(config).items() if value is not None}
    if config.timeout_duration is not None:
        stated["timeout_duration"] = Duration(**stated["timeout_duration"])
    return replace(tier, **stated)
