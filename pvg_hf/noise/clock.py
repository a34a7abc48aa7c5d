"""The time that checks take: counted, or spent."""

import time


class VirtualClock:
    """
    Counts the milliseconds that are waited for and sleeps not at all.

    Attributes:
        waited_ms (`float`):
            All that was waited for.
    """

    is_real = False

    def __init__(self) -> None:
        self.waited_ms = 0.0

    def wait(self, milliseconds: float) -> None:
        self.waited_ms += milliseconds


class RealClock(VirtualClock):
    """Sleeps. What a check took is then measured, so that two equal runs differ in their durations."""

    is_real = True

    def wait(self, milliseconds: float) -> None:
        super().wait(milliseconds)
        time.sleep(milliseconds / 1000)
