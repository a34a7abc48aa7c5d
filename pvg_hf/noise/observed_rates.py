"""
Compares a checker's observed noise with its configuration: rates of injected noise, with intervals, and escalations.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pvg_hf.core.figure import Figure, rate
from pvg_hf.noise.routing import Tier
from pvg_hf.noise.telemetry import CallCounts


@dataclass(frozen=True)
class NoiseRate:
    """
    Observed and configured rate of one kind of injected noise.

    Args:
        noise: `timeout`, `spurious_fail` or `spurious_pass`.
        figure: The observed rate. Its `n` is the number of distinct solutions at one attempt: for timeouts, all of
            them; else those with the truth that the noise affects and a verdict in time.
    """

    noise: str
    tier: str
    slice: str
    configured: float
    figure: Figure

    def to_dict(self) -> dict[str, Any]:
        return {"noise": self.noise, "tier": self.tier, "slice": self.slice, "configured": self.configured} | asdict(
            self.figure
        )


def noise_rates(counts: CallCounts, configured: Mapping[tuple[str, str], Tier]) -> list[NoiseRate]:
    """
    Compute the observed rates of injected noise.

    Returns: one element for each noise, tier and slice where it could be injected, sorted.
    """
    rates = []
    for place in sorted(counts.trials):
        noise, tier, of_slice = place
        expected = vars(configured[tier, of_slice])[noise]
        rates.append(NoiseRate(noise, tier, of_slice, expected, rate(counts.injected[place], counts.trials[place])))
    return rates


def escalation_rates(counts: CallCounts) -> dict[str, Figure]:
    """Return the share of escalated calls that accepted, by transition."""
    return {name: rate(counts.successes[name], number) for name, number in sorted(counts.escalations.items())}
