"""Tiers of a checker, and the routing of solutions through them."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, get_args

from pvg_hf.config.conditions import Condition
from pvg_hf.config.fields import check_option, stated_values
from pvg_hf.config.noise_section import (
    TIER_DEFAULTS,
    BudgetConfig,
    CheckerConfig,
    Duration,
    Policy,
    SliceConfig,
    TierConfig,
    TierName,
    TiersConfig,
    tier_defaults,
)
from pvg_hf.core.extensions import load_function, running, suggest
from pvg_hf.core.roles import ACCEPTING, Outcome
from pvg_hf.noise.verdicts import ProblemRow, Verdict

DEFAULT_TIER = "balanced"
CRITICAL_TIER = "slow_precise"

_FUNCTION = re.compile(r"[\w.]+:[\w.]+")
_DEFAULTS = CheckerConfig()


@dataclass(frozen=True)
class Tier:
    """
    One way to call a checker, with its error rates, time budget and cost.

    Of the calls about correct solutions, the share `timeout` times out and the share `spurious_fail` rejects; of those
    about incorrect solutions, `timeout` times out and `spurious_pass` accepts.

    Args:
        timeout, spurious_fail, spurious_pass, budget_seconds, cost (`float`), timeout_duration ([`Duration`],
        *optional*):
            As the keys of a tier in a recipe (docs/reference/recipes.md); the sum of the rates is below 1. The
            defaults of a recipe depend on the tier's name ([`~pvg_hf.config.noise_section.TIER_DEFAULTS`]), while this
            class has no noise by default.

    Raises:
        ValueError: for a value outside its range.
    """

    name: str
    timeout: float = 0.0
    spurious_fail: float = 0.0
    spurious_pass: float = 0.0
    budget_seconds: float = 60.0
    cost: float = 1.0
    timeout_duration: Duration | None = None

    def __post_init__(self):
        for option in TIER_DEFAULTS:
            check_option(TierConfig, option, vars(self)[option], name=f"`{option}` of the tier `{self.name}`")
        rates = {name: vars(self)[name] for name in ("timeout", "spurious_fail", "spurious_pass")}
        if sum(rates.values()) >= 1:
            raise ValueError(
                f"The rates of the tier `{self.name}` ({', '.join(f'{name} {rate}' for name, rate in rates.items())})"
                f" sum to {sum(rates.values()):g}; it must be below 1, or its verdicts no longer indicate the truth."
            )

    def is_late(self, verdict: Verdict) -> bool:
        """Whether a verdict, if there is one, took longer than the time budget."""
        return verdict.seconds > self.budget_seconds

    @property
    def budget_ms(self) -> float:
        return 1000 * self.budget_seconds

    def timeout_ms(self, draw: float) -> float:
        """Return the duration of an injected timeout for a uniform draw."""
        duration = self.timeout_duration
        return self.budget_ms if duration is None else duration.quantile(draw, self.budget_ms)

    @property
    def mean_timeout_ms(self) -> float:
        return self.budget_ms if self.timeout_duration is None else self.timeout_duration.mean(self.budget_ms)

    def without_noise(self) -> "Tier":
        return replace(self, timeout=0.0, spurious_fail=0.0, spurious_pass=0.0)


DEFAULT_TIERS = {name: Tier(name, **tier_defaults(name)) for name in get_args(TierName)}
"""The default tiers by name, in the order in which a solution escalates."""


class Call(NamedTuple):
    """
    One call of a checker, with the noise that was injected.

    Args:
        code: Outcome; `BUDGET_EXHAUSTED` for a call over budget, which was not made.
        noise: Injected noise: `"timeout"`, `"spurious_fail"`, `"spurious_pass"`, or `None`.
    """

    tier: str
    code: Outcome
    noise: str | None
    duration_ms: float
    cost: float


@dataclass(frozen=True)
class Routing:
    """
    Tiers that can be called about a solution, and the rule for calling the next one.

    It is the section `noise.checker` of a recipe (docs/reference/recipes.md) with its tiers resolved; ranges and
    defaults are those of its keys.

    Args:
        tiers (`tuple[Tier, ...]`):
            All tiers, in the order in which a solution escalates.
        escalation_policy (`str`), max_attempts (`int`), noise_enabled (`bool`):
            The keys of these names.
        start (`str`, *optional*):
            The key `tier`.
        budget (`float`, *optional*):
            The key `budget.per_solution`.

    Raises:
        ValueError: for an unknown policy or tier, or a number outside its range.
    """

    tiers: tuple[Tier, ...] = tuple(DEFAULT_TIERS.values())
    escalation_policy: Policy = _DEFAULTS.escalation_policy
    start: str | None = _DEFAULTS.tier
    max_attempts: int = _DEFAULTS.max_attempts
    budget: float | None = _DEFAULTS.budget.per_solution
    noise_enabled: bool = _DEFAULTS.noise_enabled

    def __post_init__(self):
        check_option(CheckerConfig, "escalation_policy", self.escalation_policy)
        check_option(CheckerConfig, "max_attempts", self.max_attempts)
        check_option(BudgetConfig, "per_solution", self.budget, name="`budget`")
        self.place_of(self.first_tier)

    @property
    def first_tier(self) -> str:
        if self.start is not None:
            return self.start
        # Escalation starts at the cheapest tier; a single call uses the middle one.
        is_single = self.escalation_policy == "never" and any(tier.name == DEFAULT_TIER for tier in self.tiers)
        return DEFAULT_TIER if is_single else self.tiers[0].name

    def place_of(self, name: str) -> int:
        names = [tier.name for tier in self.tiers]
        if name not in names:
            raise ValueError(f"Unknown tier `{name}`. {suggest(str(name), names)}")
        return names.index(name)

    @cached_property
    def path(self) -> tuple[Tier, ...]:
        """The tiers that are called if no call ends the path early."""
        first = self.place_of(self.first_tier)
        # The slice ends at the last tier if `max_attempts` is larger.
        num_calls = 1 if self.escalation_policy == "never" else self.max_attempts
        path = self.tiers[first : first + num_calls]
        return path if self.noise_enabled else tuple(tier.without_noise() for tier in path)

    @cached_property
    def longest_seconds(self) -> float:
        """The largest time budget on the path."""
        return max(tier.budget_seconds for tier in self.path)

    def escalates(self, code: Outcome) -> bool:
        """Whether the next tier is called after this outcome."""
        policy = self.escalation_policy
        if policy == "on_failure":
            return code not in ACCEPTING
        return policy == "always" or (policy == "on_timeout" and code == Outcome.VERIFIER_TIMEOUT)

    def critical(self) -> "Routing":
        """Return a routing that goes directly to the most careful of the same tiers."""
        return replace(self, escalation_policy="never", start=CRITICAL_TIER, max_attempts=1)


POSSIBLE_VERDICTS = {
    True: ("spurious_fail", Outcome.VERIFIER_SPURIOUS_FAIL, Outcome.VERIFIED),
    False: ("spurious_pass", Outcome.VERIFIER_SPURIOUS_PASS, Outcome.PROOF_INVALID),
}
"""By the truth of a solution: the noise that makes a call wrong, and the outcomes of a wrong and of a right call."""


def make_call(tier: Tier, verdict: Verdict, draws: tuple[float, float], *, is_real: bool = False) -> Call:
    """
    Add the noise of a tier to a verdict.

    A single draw decides: its low end causes spurious verdicts and its high end timeouts. A higher rate therefore
    injects noise into every call into which a lower rate does.

    Args:
        is_real: Whether the call lasts as long as the base checker took; else it lasts no time.
    """
    which, how_long = draws
    # A timeout is decided before the verdict: it affects correct and incorrect solutions equally.
    if which >= 1 - tier.timeout:
        return Call(tier.name, Outcome.VERIFIER_TIMEOUT, "timeout", tier.timeout_ms(how_long), tier.cost)
    duration_ms = 1000 * verdict.seconds if is_real else 0.0
    if verdict.error is not None:
        return Call(tier.name, Outcome.VERIFIER_INTERNAL_ERROR, None, duration_ms, tier.cost)
    if verdict.passed is None or tier.is_late(verdict):
        return Call(tier.name, Outcome.VERIFIER_TIMEOUT, None, tier.budget_ms, tier.cost)
    noise, false, true = POSSIBLE_VERDICTS[verdict.passed]
    if which < vars(tier)[noise]:
        return Call(tier.name, false, noise, duration_ms, tier.cost)
    return Call(tier.name, true, None, duration_ms, tier.cost)


def can_pay(tier: Tier, spent: float, budget: float | None) -> bool:
    return spent + tier.cost <= (math.inf if budget is None else budget)


class Ledger:
    """
    Budgets that all solutions share, on a first-come, first-served basis.

    Only here does the order of the solutions matter. The game grades them in the order of the pool, whatever the
    batches and processes.

    Args:
        per_round (`float`, *optional*), total (`float`, *optional*):
            Budgets, above 0; unlimited by default.
        spent_in_round (`float`), spent (`float`):
            Cost of earlier calls, in the current round and in total.

    Raises:
        ValueError: for a budget that is not above 0.
    """

    def __init__(
        self,
        per_round: float | None = None,
        total: float | None = None,
        *,
        spent_in_round: float = 0.0,
        spent: float = 0.0,
    ):
        for name, budget in (("per_round", per_round), ("total", total)):
            check_option(BudgetConfig, name, budget, name=f"The budget `{name}`")
        self.per_round = math.inf if per_round is None else per_round
        self.total = math.inf if total is None else total
        self.spent_in_round = spent_in_round
        self.spent = spent
        self._round: int | None = None

    @property
    def is_limited(self) -> bool:
        return min(self.per_round, self.total) < math.inf

    def enter(self, round_index: int) -> None:
        """Enter a round. A new round resets its budget."""
        if self._round not in (None, round_index):
            self.spent_in_round = 0.0
        self._round = round_index

    def can_pay(self, cost: float) -> bool:
        return self.spent_in_round + cost <= self.per_round and self.spent + cost <= self.total

    def pay(self, cost: float) -> None:
        self.spent_in_round += cost
        self.spent += cost


class Routes:
    """
    Selects the routing for a problem.

    Args:
        routing ([`Routing`]):
            Routing of every slice without its own.
        slice_by (`str`, *optional*):
            Column of the problems whose values define the slices.
        slices (`Mapping[str, Routing]`, *optional*):
            Routing of single slices, by the column's value as a text.
        critical (`str`, *optional*):
            Problems whose solutions go directly to `slow_precise`: a [`~pvg_hf.config.conditions.Condition`], or
            `package.module:Name` of a function of a problem.

    Raises:
        ValueError: for slices without a column, or a malformed condition.
    """

    def __init__(
        self,
        routing: Routing | None = None,
        *,
        slice_by: str | None = None,
        slices: Mapping[str, Routing] | None = None,
        critical: str | None = None,
    ):
        if slices and slice_by is None:
            raise ValueError(
                f"There are overrides for the slices {list(slices)}, but no `slice_by` that defines them."
            )
        self.routing = routing or Routing()
        self.slice_by = slice_by
        self.slices = dict(slices or {})
        self.critical: Callable[[ProblemRow], bool] | None = None
        if critical is not None:
            self.critical = _load_function(critical) if _FUNCTION.fullmatch(critical) else Condition(critical)
        ways = [self.routing, *self.slices.values()]
        # Made once, since a routing caches its path.
        self._critical = {id(way): way.critical() for way in ways} if critical is not None else {}

    def of(self, problem: ProblemRow) -> tuple[Routing, str]:
        """Return the routing of a problem's solutions, and the name of its slice."""
        name = "all" if self.slice_by is None else str(problem[self.slice_by])
        routing = self.slices.get(name, self.routing)
        if self.critical is not None and self.critical(problem):
            return self._critical[id(routing)], name
        return routing, name


def _load_function(spec: str) -> Callable[[ProblemRow], bool]:
    function = load_function(spec, "condition", "(problem) -> bool")

    def holds(problem: ProblemRow) -> bool:
        with running(f"The condition `{spec}`, asked about the problem `{problem.get('problem_id')}`,"):
            return bool(function(problem))

    return holds


def make_routes(config: CheckerConfig) -> Routes:
    """
    Make the routes that a recipe's section describes.

    Raises `ValueError` for rates that leave no information about the truth, an unknown tier, or a malformed condition.
    """
    routing = Routing(
        _override_tiers(tuple(DEFAULT_TIERS.values()), config.tiers),
        config.escalation_policy,
        config.tier,
        config.max_attempts,
        config.budget.per_solution,
        config.noise_enabled,
    )
    slices = {name: _override_routing(routing, override) for name, override in config.slices.items()}
    return Routes(routing, slice_by=config.slice_by, slices=slices, critical=config.critical)


def _override_tiers(tiers: tuple[Tier, ...], config: TiersConfig) -> tuple[Tier, ...]:
    return tuple(replace(tier, **stated_values(vars(config)[tier.name])) for tier in tiers)


def _override_routing(routing: Routing, config: SliceConfig) -> Routing:
    stated = stated_values(config)
    stated["tiers"] = _override_tiers(routing.tiers, stated["tiers"])
    if "tier" in stated:
        stated["start"] = stated.pop("tier")
    return replace(routing, **stated)
