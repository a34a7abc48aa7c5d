"""A figure: a value with its 95 % interval and the number of observations."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Figure:
    """
    A value with its 95 % interval and the number of observations.

    Args:
        value (`float`, *optional*):
            `None` if there was nothing to measure.
        low (`float`, *optional*), high (`float`, *optional*):
            Bounds of the 95 % interval; `None` without a value or with too little data for an interval.
        n (`int`):
            Number of observations that the value is a mean of: solutions, pairs or problems.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Figure":
        return cls(**values)

    def __str__(self) -> str:
        if self.value is None:
            return f"none n={self.n}"
        interval = "" if self.low is None else f" [{self.low:.2f}, {self.high:.2f}]"
        return f"{self.value:.2f}{interval} n={self.n}"


EMPTY = Figure(None, None, None, 0)
