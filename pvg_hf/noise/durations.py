"""How long an injected timeout lasts."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

DurationKind = Literal["fixed", "uniform", "exponential"]
_PARAMETERS = {"fixed": ("ms",), "uniform": ("min_ms", "max_ms"), "exponential": ("mean_ms",)}


@dataclass(frozen=True)
class Duration:
    """
    A distribution of durations in milliseconds.

    Args:
        kind (`str`):
            `"fixed"` (takes `ms`), `"uniform"` (`min_ms`, `max_ms`) or `"exponential"` (`mean_ms`).
        ms, min_ms, max_ms, mean_ms (`float`, *optional*):
            Milliseconds, at least 0; those that the kind takes, and no others.

    Raises:
        ValueError: for an unknown kind, a parameter that is missing or another kind's, one below 0, or
            `min_ms > max_ms`.
    """

    kind: DurationKind
    ms: float | None = None
    min_ms: float | None = None
    max_ms: float | None = None
    mean_ms: float | None = None

    def __post_init__(self):
        if self.kind not in get_args(DurationKind):
            raise ValueError(f"A duration is {', '.join(map(repr, get_args(DurationKind)))}; got {self.kind!r}.")
        given = {name: value for name, value in vars(self).items() if name != "kind" and value is not None}
        wanted = _PARAMETERS[self.kind]
        if set(given) != set(wanted):
            raise ValueError(
                f"A duration of the kind `{self.kind}` takes {_listed(wanted)}; got {_listed(given) or 'none'}."
            )
        for name, value in given.items():
            if not (value >= 0 and math.isfinite(value)):
                raise ValueError(f"`{name}` is {value}; a duration is a number of milliseconds, at least 0.")
        if self.kind == "uniform" and self.min_ms > self.max_ms:
            raise ValueError(f"`min_ms` is {self.min_ms} and `max_ms` {self.max_ms}; it must not be below `min_ms`.")

    def at(self, draw: float, longest_ms: float = math.inf) -> float:
        """Milliseconds for a uniform draw in [0, 1), cut off at `longest_ms`."""
        if self.kind == "fixed":
            duration = self.ms
        elif self.kind == "uniform":
            duration = self.min_ms + (self.max_ms - self.min_ms) * draw
        else:
            duration = -self.mean_ms * math.log1p(-draw)
        return min(duration, longest_ms)

    def mean(self, longest_ms: float = math.inf) -> float:
        """The mean of [`at`] over the draws."""
        if self.kind == "fixed":
            return min(self.ms, longest_ms)
        if self.kind == "exponential":
            return self.mean_ms * -math.expm1(-longest_ms / self.mean_ms) if self.mean_ms else 0.0
        low, high = min(self.min_ms, longest_ms), min(self.max_ms, longest_ms)
        if self.min_ms == self.max_ms:
            return low
        share_below = (high - low) / (self.max_ms - self.min_ms)
        return share_below * (low + high) / 2 + (1 - share_below) * high


def _listed(names) -> str:
    return " and ".join(f"`{name}`" for name in names)
