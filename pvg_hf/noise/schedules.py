"""How label noise changes over rounds or steps."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from pvg_hf.suggestions import suggest

ScheduleKind = Literal["constant", "linear", "cosine", "cyclic"]


@dataclass(frozen=True)
class RateSchedule:
    """
    A factor in [0, 1] of the rates, over moments 0, 1, 2, ...

    Args:
        kind (`str`):
            `"constant"`: `end` throughout. `"linear"`: `start` during the warm-up, then straight to `end` within `length`
            moments, and `end` from there on. `"cosine"`: the same along half a cosine. `"cyclic"`: after the warm-up from
            `start` to `end` and back along a cosine, once in `period` moments.
        start (`float`), end (`float`):
            Factors in [0, 1].
        warmup (`int`):
            Moments before it begins, at least 0.
        length (`int`, *optional*):
            Of `"linear"` and `"cosine"`, at least 1.
        period (`int`, *optional*):
            Of `"cyclic"`, at least 2.

    Raises:
        ValueError: for an unknown kind, a value out of its range, or a length or period that is missing or of another
            kind.
    """

    kind: ScheduleKind = "constant"
    start: float = 0.0
    end: float = 1.0
    warmup: int = 0
    length: int | None = None
    period: int | None = None

    def __post_init__(self):
        if self.kind not in get_args(ScheduleKind):
            raise ValueError(f"Unknown schedule `{self.kind}`. {suggest(str(self.kind), get_args(ScheduleKind))}")
        for name in ("start", "end"):
            if not 0 <= vars(self)[name] <= 1:
                raise ValueError(f"`{name}` is {vars(self)[name]}; a schedule is a factor of the rates, in [0, 1].")
        if self.warmup < 0:
            raise ValueError(f"`warmup` is {self.warmup}; it must be at least 0.")
        self._check_extent("length", self.length, ("linear", "cosine"), least=1)
        self._check_extent("period", self.period, ("cyclic",), least=2)

    def _check_extent(self, name: str, value: int | None, kinds: tuple[str, ...], *, least: int) -> None:
        if (value is not None) != (self.kind in kinds):
            verb = "needs" if self.kind in kinds else "does not take"
            raise ValueError(f"The schedule `{self.kind}` {verb} `{name}`; got {value}.")
        if value is not None and value < least:
            raise ValueError(f"`{name}` is {value}; it must be at least {least}.")

    def factor(self, moment: int) -> float:
        """What the rates are multiplied with at a moment."""
        if self.kind == "constant":
            return self.end
        since = max(0, moment - self.warmup)
        if self.kind == "cyclic":
            way = (1 - math.cos(2 * math.pi * since / self.period)) / 2
        else:
            way = min(1.0, since / self.length)
            way = (1 - math.cos(math.pi * way)) / 2 if self.kind == "cosine" else way
        return self.start + (self.end - self.start) * way
