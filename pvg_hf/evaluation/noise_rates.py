"""What a checker did, against what was configured: rates of injected noise with their intervals, and escalations."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pvg_hf.core.figure import Figure
from pvg_hf.evaluation.intervals import rate
from pvg_hf.noise.routing import Tier
from pvg_hf.noise.telemetry import CheckCounts


@dataclass(frozen=True)
class NoiseRate:
    """
    Args:
        noise (`str`):
            `timeout`, `spurious_fail` or `spurious_pass`.
        tier (`str`), slice (`str`):
            Of the calls.
        configured (`float`):
            In [0, 1).
        figure ([`Figure`]):
            What was found; its `n` are distinct solutions at one attempt: of timeouts all, of the others those of the truth
            that the noise is about, with a verdict in time.
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


def noise_rates(counts: CheckCounts, configured: Mapping[tuple[str, str], Tier]) -> list[NoiseRate]:
    """
    Args:
        counts ([`~pvg_hf.noise.telemetry.CheckCounts`]):
            Of the calls.
        configured (`Mapping[tuple[str, str], Tier]`):
            By tier and slice.

    Returns:
        `list[NoiseRate]`: one for each noise, tier and slice into which it could be injected, sorted.
    """
    rates = []
    for place in sorted(counts.trials):
        noise, tier, of_slice = place
        expected = vars(configured[tier, of_slice])[noise]
        rates.append(NoiseRate(noise, tier, of_slice, expected, rate(counts.injected[place], counts.trials[place])))
    return rates


def escalation_rates(counts: CheckCounts) -> dict[str, Figure]:
    """By transition, the share of the further calls that accepted."""
    return {name: rate(counts.successes[name], number) for name, number in sorted(counts.escalations.items())}
