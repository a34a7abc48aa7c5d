"""How a check goes from tier to tier, and the call at each of them."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, get_args

from pvg_hf.noise.tiers import CRITICAL_TIER, DEFAULT_TIER, DEFAULT_TIERS, Tier
from pvg_hf.noise.verdicts import Verdict
from pvg_hf.outcomes import ACCEPTING, Outcome
from pvg_hf.suggestions import suggest

EscalationPolicy = Literal["on_failure", "on_timeout", "always", "never"]


class Call(NamedTuple):
    """
    One call of a checker.

    Args:
        tier (`str`):
            Where it was made.
        code ([`~pvg_hf.outcomes.Outcome`]):
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
    escalation_policy: EscalationPolicy = "never"
    start: str | None = None
    max_attempts: int = 3
    budget: float | None = None
    noise_enabled: bool = True

    def __post_init__(self):
        if self.escalation_policy not in get_args(EscalationPolicy):
            raise ValueError(
                f"Unknown escalation policy `{self.escalation_policy}`. "
                f"{suggest(str(self.escalation_policy), get_args(EscalationPolicy))}"
            )
        if self.max_attempts < 1:
            raise ValueError(f"`max_attempts` is {self.max_attempts}; a check takes at least 1.")
        if self.budget is not None and not self.budget > 0:
            raise ValueError(f"The budget of a solution is {self.budget}; it must be above 0.")
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

    def goes_on(self, code: Outcome) -> bool:
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
