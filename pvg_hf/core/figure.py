"""A figure: a value with its 95 % interval and the number of observations."""

import math
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

ALPHA = 0.05  # intervals are of 1 - ALPHA


@dataclass(frozen=True)
class Figure:
    """A value with its 95 % interval and the number of observations."""

    value: float | None  # `None` if there was nothing to measure
    low: float | None  # `None` with too little data for an interval; a bound alone if the value lies beyond it
    high: float | None
    n: int  # observations that the value is a mean of: solutions, pairs or problems

    def __post_init__(self):
        bounds = (self.low is not None, self.high is not None)
        if bounds not in ((False, False), (True, True) if self.value is not None else (True, False)):
            raise ValueError(f"has one bound of an interval, or an interval without a value: {vars(self)}")

    @property
    def known(self) -> float:
        """The value of a figure that has one."""
        assert self.value is not None
        return self.value

    @property
    def bounds(self) -> tuple[float, float]:
        """Both bounds of a figure that has an interval."""
        assert self.low is not None
        assert self.high is not None
        return self.low, self.high

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return format(self)

    def __format__(self, spec: str) -> str:
        """Format value, interval and n; `spec` is the format of the numbers, `.2f` by default."""
        if self.value is None:
            return f"{'none' if self.low is None else f'> {self.low:g}'} n={self.n}"
        spec = spec or ".2f"
        interval = "" if self.low is None else f" [{self.low:{spec}}, {self.high:{spec}}]"
        return f"{self.value:{spec}}{interval} n={self.n}"


EMPTY = Figure(None, None, None, 0)


def wilson(share: float, size: float, n: int) -> Figure:
    """
    Return a share of successes with its Wilson interval for `size` independent trials; `n` is that of the figure.

    `scipy.stats.binomtest` has the interval too, but only for a whole number of trials.
    """
    z = -NormalDist().inv_cdf(ALPHA / 2)
    rate, shrink = share * size / size, 1 + z**2 / size
    centre = (rate + z**2 / (2 * size)) / shrink
    half = z * math.sqrt(rate * (1 - rate) / size + z**2 / (4 * size**2)) / shrink
    # Rounding may put a bound of 0 or 1 slightly on the wrong side of the rate, or outside [0, 1].
    low, high = max(centre - half, 0), min(centre + half, 1)
    return Figure(float(share), float(min(low, share)), float(max(high, share)), n)


def rate(successes: int, n: int) -> Figure:
    """
    Return a rate with its Wilson interval, which is valid for `n` independent trials; a `ValueError` unless `0 <=
    successes <= n`.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"`successes` is {successes}; it must lie in [0, n], and `n` is {n}.")
    return EMPTY if n == 0 else wilson(successes / n, n, n)
