"""How a check moves between tiers: which tier a solution starts at, and what each call may cost."""

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, get_args

import yaml

from pvg_hf.config.fields import check_option, stated_values
from pvg_hf.config.noise import (
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
from pvg_hf.noise.verdicts import Problem, Verdict

DEFAULT_TIER = "balanced"

CRITICAL_TIER = "slow_precise"


@dataclass(frozen=True)
class Tier:
    """
    One way to ask a checker. Of the calls about a correct solution the share `timeout` times out and the share
    `spurious_fail` rejects it; of those about an incorrect one, `timeout` and `spurious_pass`.

    Args:
        name (`str`):
            What it is called in events and metrics.
        timeout, spurious_fail, spurious_pass (`float`):
            Rates in [0, 1), whose sum is below 1.
        budget_seconds (`float`):
            Longest that a call may take, above 0. A base checker that takes longer is stopped, and timed out.
        cost (`float`):
            Of a call, above 0, in the unit of the budgets.
        timeout_duration ([`Duration`], *optional*):
            How long an injected timeout lasts, at most the time budget; the whole time budget by default.

    Raises:
        ValueError: for a value out of its range.
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
                f"The rates of the tier `{self.name}` ({', '.join(f'{name} {rate}' for name, rate in rates.items())}) sum "
                f"to {sum(rates.values()):g}; it must be below 1, or what it says no longer points to the truth."
            )

    def is_late(self, verdict: Verdict) -> bool:
        """Whether a verdict, if there is one, takes longer than the time budget."""
        return verdict.seconds > self.budget_seconds

    @property
    def budget_ms(self) -> float:
        return 1000 * self.budget_seconds

    def timeout_ms(self, draw: float) -> float:
        """How long an injected timeout lasts, for a uniform draw."""
        return self.budget_ms if self.timeout_duration is None else self.timeout_duration.at(draw, self.budget_ms)

    @property
    def mean_timeout_ms(self) -> float:
        return self.budget_ms if self.timeout_duration is None else self.timeout_duration.mean(self.budget_ms)

    def without_noise(self) -> "Tier":
        return replace(self, timeout=0.0, spurious_fail=0.0, spurious_pass=0.0)


DEFAULT_TIERS = {name: Tier(name, **tier_defaults(name)) for name in get_args(TierName)}
"""By name, in the order in which a check escalates."""

_COMPARISON = re.compile(r"\s*(\w+)\s*(==|!=|>=|<=|>|<)\s*(.+?)\s*")

_OPERATORS = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


class Predicate:
    """
    Args:
        text (`str`):
            A column that is true or false, `COLUMN OPERATOR VALUE` with one of `== != >= <= > <` (`difficulty >= 5`), or
            `package.module:Name` of a function of the problem.

    Attributes:
        column (`str`, *optional*):
            That it reads; `None` for a function.

    Raises:
        ValueError: if it is none of these.
    """

    def __init__(self, text: str):
        self.text = text
        comparison = _COMPARISON.fullmatch(text)
        if comparison is None and ":" in text:
            self.column, self._holds = None, _load_function(text)
        elif comparison is None and text.isidentifier():
            self.column, self._holds = text, lambda problem: problem[text]
        elif comparison is not None:
            self.column, sign, value = comparison[1], comparison[2], yaml.safe_load(comparison[3])
            self._holds = lambda problem: _OPERATORS[sign](problem[self.column], value)
        else:
            raise ValueError(
                f"Cannot read the condition `{text}`: it is a column, a comparison such as `difficulty >= 5`, or "
                "`package.module:Name`."
            )

    @property
    def is_column(self) -> bool:
        """Whether the condition is a column itself."""
        return self.text == self.column

    def __call__(self, problem: Problem) -> bool:
        return bool(self._holds(problem))


def _load_function(spec: str) -> Callable[[Problem], bool]:
    function = load_function(spec, "condition", "(problem) -> bool")

    def holds(problem: Problem) -> bool:
        with running(f"The condition `{spec}`, asked about the problem `{problem.get('problem_id')}`,"):
            return function(problem)

    return holds


class Call(NamedTuple):
    """
    One call of a checker.

    Args:
        tier (`str`):
            Where it was made.
        code ([`~pvg_hf.core.roles.Outcome`]):
            What it came to; `BUDGET_EXHAUSTED` for a call that could not be paid for and was not made.
        noise (`str`, *optional*):
            What was injected: `"timeout"`, `"spurious_fail"`, `"spurious_pass"`, or `None`.
        duration_ms (`float`), cost (`float`):
            What it took.
    """

    tier: str
    code: Outcome
    noise: str | None
    duration_ms: float
    cost: float


@dataclass(frozen=True)
class Routing:
    """
    Args:
        tiers (`tuple[Tier, ...]`):
            In the order in which a check escalates.
        escalation_policy (`str`):
            When the next tier is asked: `"on_failure"`, after anything but a pass; `"on_timeout"`; `"always"`, up to the
            last tier; `"never"`. The last word counts.
        start (`str`, *optional*):
            The tier that is asked first; by default `balanced` where nothing escalates, and otherwise the first.
        max_attempts (`int`):
            Most calls for one solution, at least 1.
        budget (`float`, *optional*):
            Most that the calls for one solution may cost, above 0.
        noise_enabled (`bool`):
            Whether any noise is injected; without it the tiers, budgets and durations of a real checker are left.

    Raises:
        ValueError: for an unknown policy or tier, or a number out of its range.
    """

    tiers: tuple[Tier, ...] = tuple(DEFAULT_TIERS.values())
    escalation_policy: Policy = "never"
    start: str | None = None
    max_attempts: int = 3
    budget: float | None = None
    noise_enabled: bool = True

    def __post_init__(self):
        check_option(CheckerConfig, "escalation_policy", self.escalation_policy)
        check_option(CheckerConfig, "max_attempts", self.max_attempts)
        check_option(BudgetConfig, "per_solution", self.budget, name="`budget`")
        self.place_of(self.first_tier)

    @property
    def first_tier(self) -> str:
        if self.start is not None:
            return self.start
        is_single = self.escalation_policy == "never" and any(tier.name == DEFAULT_TIER for tier in self.tiers)
        return DEFAULT_TIER if is_single else self.tiers[0].name

    def place_of(self, name: str) -> int:
        """Where a tier stands."""
        names = [tier.name for tier in self.tiers]
        if name not in names:
            raise ValueError(f"Unknown tier `{name}`. {suggest(str(name), names)}")
        return names.index(name)

    @cached_property
    def path(self) -> tuple[Tier, ...]:
        """The tiers that are asked, one after the other, where nothing ends the check before."""
        first = self.place_of(self.first_tier)
        num_calls = 1 if self.escalation_policy == "never" else self.max_attempts
        path = self.tiers[first : first + num_calls]
        return path if self.noise_enabled else tuple(tier.without_noise() for tier in path)

    @cached_property
    def longest_seconds(self) -> float:
        """The largest time budget on the path."""
        return max(tier.budget_seconds for tier in self.path)

    def escalates(self, code: Outcome) -> bool:
        """Whether the next tier is asked after this word."""
        policy = self.escalation_policy
        if policy == "on_failure":
            return code not in ACCEPTING
        return policy == "always" or (policy == "on_timeout" and code == Outcome.VERIFIER_TIMEOUT)

    def critical(self) -> "Routing":
        """The same tiers, but straight to the most careful one."""
        return Routing(
            self.tiers, "never", CRITICAL_TIER, max_attempts=1, budget=self.budget, noise_enabled=self.noise_enabled
        )


def make_call(tier: Tier, verdict: Verdict, draws: tuple[float, float], *, is_real: bool = False) -> Call:
    """
    Put the noise of a tier on a verdict. One draw decides, spurious words at its low end and timeouts at its high end, so
    that a higher rate injects wherever a lower one does.

    Args:
        tier ([`Tier`]):
            Which is asked.
        verdict ([`Verdict`]):
            Of the base checker.
        draws (`tuple[float, float]`):
            See [`~pvg_hf.noise.draws.check_draws`].
        is_real (`bool`):
            Whether an answer takes the time that the base checker took, or none.
    """
    which, how_long = draws
    if which >= 1 - tier.timeout:
        return Call(tier.name, Outcome.VERIFIER_TIMEOUT, "timeout", tier.timeout_ms(how_long), tier.cost)
    duration_ms = 1000 * verdict.seconds if is_real else 0.0
    if verdict.error is not None:
        return Call(tier.name, Outcome.VERIFIER_INTERNAL_ERROR, None, duration_ms, tier.cost)
    if verdict.passed is None or tier.is_late(verdict):
        return Call(tier.name, Outcome.VERIFIER_TIMEOUT, None, tier.budget_ms, tier.cost)
    if verdict.passed:
        if which < tier.spurious_fail:
            return Call(tier.name, Outcome.VERIFIER_SPURIOUS_FAIL, "spurious_fail", duration_ms, tier.cost)
        return Call(tier.name, Outcome.VERIFIED, None, duration_ms, tier.cost)
    if which < tier.spurious_pass:
        return Call(tier.name, Outcome.VERIFIER_SPURIOUS_PASS, "spurious_pass", duration_ms, tier.cost)
    return Call(tier.name, Outcome.PROOF_INVALID, None, duration_ms, tier.cost)


def can_pay(tier: Tier, spent: float, budget: float | None) -> bool:
    return spent + tier.cost <= (math.inf if budget is None else budget)


EVERYTHING = "all"  # the slice of problems that no column parts


class Routes:
    """
    Args:
        routing ([`Routing`]):
            Of every slice that has none of its own.
        slice_by (`str`, *optional*):
            The column of the problems whose values are the slices.
        slices (`Mapping[str, Routing]`, *optional*):
            Overrides, by the text of the column's value.
        critical (`str`, *optional*):
            Problems whose solutions go straight to `slow_precise`; see [`~pvg_hf.noise.routing.Predicate`].

    Raises:
        ValueError: for slices without a column, or a condition that cannot be read.
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
            raise ValueError(f"There are overrides for the slices {list(slices)}, but no `slice_by` to tell them by.")
        self.routing = routing or Routing()
        self.slice_by = slice_by
        self.slices = dict(slices or {})
        self.critical = None if critical is None else Predicate(critical)
        ways = [self.routing, *self.slices.values()]
        self._critical = {id(way): way.critical() for way in ways} if critical is not None else {}

    def of(self, problem: Problem) -> tuple[Routing, str]:
        """The routing of a problem's solutions, and the name of its slice."""
        name = EVERYTHING if self.slice_by is None else str(problem[self.slice_by])
        routing = self.slices.get(name, self.routing)
        if self.critical is not None and self.critical(problem):
            return self._critical[id(routing)], name
        return routing, name


def make_routes(config: CheckerConfig) -> Routes:
    """
    Return the routes that a recipe's section describes.

    Raises:
        ValueError: for rates that leave nothing of the truth, an unknown tier, or a condition that cannot be read.
    """
    tiers = _override_tiers(DEFAULT_TIERS, config.tiers)
    routing = Routing(
        tuple(tiers.values()),
        config.escalation_policy,
        config.tier,
        config.max_attempts,
        config.budget.per_solution,
        config.noise_enabled,
    )
    slices = {name: _override_routing(routing, tiers, override) for name, override in config.slices.items()}
    return Routes(routing, slice_by=config.slice_by, slices=slices, critical=config.critical)


def _override_tiers(tiers: Mapping[str, Tier], config: TiersConfig) -> dict[str, Tier]:
    return {name: replace(tier, **stated_values(vars(config)[name])) for name, tier in tiers.items()}


def _override_routing(routing: Routing, tiers: Mapping[str, Tier], config: SliceConfig) -> Routing:
    stated = stated_values(config)
    overrides = {"tiers": tuple(_override_tiers(tiers, stated.pop("tiers")).values())}
    if "tier" in stated:
        overrides["start"] = stated.pop("tier")
    return replace(routing, **overrides, **stated)
