"""Ctrl-C and SIGTERM end a run at the next step."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class GameInterrupted(Exception):
    """The user asked to stop; everything finished is kept and the run can be continued."""


class StopRequest:
    """Whether the user asked to stop. A second Ctrl-C interrupts at once."""

    def __init__(self) -> None:
        self.is_set = False

    def check(self) -> None:
        """
        Raises:
            GameInterrupted: if a stop was asked for.
        """
        if self.is_set:
            raise GameInterrupted

    @contextmanager
    def listening(self) -> Iterator["StopRequest"]:
        """Catch the signals within the block, in the main thread."""
        previous = {number: signal.signal(number, self._catch) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _catch(self, number: int, frame: FrameType | None) -> None:
        if self.is_set:
            raise KeyboardInterrupt
        self.is_set = True
