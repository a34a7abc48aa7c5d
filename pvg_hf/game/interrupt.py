"""Ctrl-C, SIGTERM and the end of the launcher end a run at the next step."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from accelerate.utils import gather_object

from pvg_hf.game.console import is_main_process
from pvg_hf.run.environment import is_alone, is_by_accelerate, is_launched

# A launcher passes on to its processes what the terminal has sent them already: the echo is not a second request.
ECHO_SECONDS = 1.0


def describe_request(number: int) -> str:
    """What a person reads at once after the signal `number`: the step may take a while."""
    if number == signal.SIGINT and is_by_accelerate() and is_alone():
        return (
            "Stopping after the current step. `accelerate launch` ends already, with a traceback of its own that tells nothing of "
            f"the game; the process {os.getpid()} ends the step (`kill {os.getpid()}` ends it at once)."
        )
    return "Stopping after the current step; the same signal once more ends the process at once."


class GameInterrupted(Exception):
    """The user asked to stop; everything finished is kept and the run can be continued."""


class StopRequest:
    """
    Whether the user asked to stop. A second Ctrl-C interrupts at once.

    `accelerate launch` passes no signal on to a single process that it started: it just ends. So a launched process that
    lost its parent was asked to stop as well.
    """

    def __init__(self) -> None:
        self._asked_at: float | None = None
        self._launcher = os.getppid() if is_launched() else None

    def is_asked(self) -> bool:
        """Whether any process was asked to stop. All processes must ask at the same place, and get the same answer."""
        return any(gather_object([self._is_asked_here()]))

    def _is_asked_here(self) -> bool:
        return self._asked_at is not None or self._has_lost_launcher()

    def _has_lost_launcher(self) -> bool:
        return self._launcher is not None and os.getppid() != self._launcher

    def check(self) -> None:
        """
        Raises:
            GameInterrupted: if a stop was asked for, on all processes alike.
        """
        if self.is_asked():
            raise GameInterrupted

    def check_alone(self) -> None:
        """
        The same where one process works and the others wait in [`check`], which it must come to as well.

        Raises:
            GameInterrupted: if this process was asked to stop, on it alone.
        """
        if self._is_asked_here():
            raise GameInterrupted

    @contextmanager
    def listening(self) -> Iterator["StopRequest"]:
        """Catch the signals within the block. They come to the main thread only, so in others this does nothing."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        previous = {number: signal.signal(number, self._catch) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _catch(self, number: int, frame: FrameType | None) -> None:
        if self._asked_at is None:
            self._asked_at = time.monotonic()
            if is_main_process():
                # A handler may run in the middle of another write, which the buffered streams do not allow.
                os.write(2, f"\n{describe_request(number)}\n".encode())
        elif time.monotonic() - self._asked_at > ECHO_SECONDS:
            raise KeyboardInterrupt
