"""TODO pvg_hf.core.figure."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Figure:
    """
    A number that can be judged.

    Args:
        value (`float`, *optional*):
            `None` where nothing was there to measure.
        low (`float`, *optional*), high (`float`, *optional*):
            The 95 % interval; `None` where there is no value, or too little data for an interval.
        n (`int`):
            What the value is a mean over: solutions, pairs or problems.
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
