"""Tiers of a checker: the quick and the careful way to ask it."""

import math
from dataclasses import dataclass, replace

from pvg_hf.noise.durations import Duration
from pvg_hf.noise.verdicts import Verdict

TIER_NAMES = ("fast_noisy", "balanced", "slow_precise")
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
        rates = {name: vars(self)[name] for name in ("timeout", "spurious_fail", "spurious_pass")}
        for name, value in rates.items():
            if not 0 <= value < 1:
                raise ValueError(f"`{name}` of the tier `{self.name}` is {value}; a rate lies in [0, 1).")
        if sum(rates.values()) >= 1:
            raise ValueError(
                f"The rates of the tier `{self.name}` ({', '.join(f'{name} {rate}' for name, rate in rates.items())}) sum "
                f"to {sum(rates.values()):g}; it must be below 1, or what it says no longer points to the truth."
            )
        for name in ("budget_seconds", "cost"):
            if not (vars(self)[name] > 0 and math.isfinite(vars(self)[name])):
                raise ValueError(f"`{name}` of the tier `{self.name}` is {vars(self)[name]}; it must be above 0.")

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


DEFAULT_TIERS = {
    "fast_noisy": Tier("fast_noisy", 0.10, 0.05, 0.02, budget_seconds=30, cost=1),
    "balanced": Tier("balanced", 0.05, 0.02, 0.01, budget_seconds=60, cost=2),
    "slow_precise": Tier("slow_precise", 0.01, 0.005, 0.001, budget_seconds=120, cost=4),
}
"""By name, in the order in which a check escalates."""
