"""
Graceful stops: Ctrl-C, SIGTERM, and the end of the launcher end a run after the current step, or in the middle of a
long one.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from pvg_hf.core.stop_checks import stoppable
from pvg_hf.run.console import is_main_process
from pvg_hf.run.environment import is_alone, is_by_accelerate, is_launched

# The terminal sends a signal to the launcher and its processes, and the launcher forwards it: that is not a second
# request.
ECHO_SECONDS = 1.0

GRACE_SECONDS = 3.0  # that the current step has to end after a request, before it is abandoned

LOOK_SECONDS = 1.0  # between two looks at the run's folder while a process works alone


def describe_request(number: int) -> str:
    """Message printed immediately after the signal `number`, because the current step may take a while."""
    if not can_abandon():
        return "Stopping after the current step; a second signal ends the process immediately."
    wait = f"Stopping after the current step, or in {GRACE_SECONDS:.0f} seconds; finished work is kept."
    if number == signal.SIGINT and is_by_accelerate():
        return (
            f"{wait} `accelerate launch` ends immediately with a traceback that is not about the game; process"
            f" {os.getpid()} ends the step (`kill {os.getpid()}` stops at once)."
        )
    return f"{wait} A second signal stops at once."


def can_abandon() -> bool:
    """Whether a long step is abandoned: not by one of several processes, for which the others would wait."""
    return is_alone() and sys.platform != "win32"  # Windows has no signal that ends a wait


class GameInterrupted(Exception):
    """The user asked to stop; everything finished is kept and the run can be continued."""


class StopRequest:
    """
    Records whether the user asked to stop.

    Work that can end in order asks for this between two of its parts. Other work is abandoned: `GRACE_SECONDS` after
    the request, or at a second signal, `KeyboardInterrupt` is raised wherever the program is. For the run this is the
    same as a kill, after which it resumes to the same bytes.

    `accelerate launch` does not forward signals to a single process, but ends. A launched process that has lost its
    parent therefore counts as asked to stop.

    Attributes:
        has_interrupted: Whether [`check`] has raised its error.
        find_loss: Returns an error's text if the run's folder is gone, else `None`; see [`~pvg_hf.run.lock.RunLock`].
    """

    def __init__(self) -> None:
        self._asked_at: float | None = None
        self.has_interrupted = False
        self.find_loss: Callable[[], str | None] = lambda: None
        self._is_answered = threading.Event()
        self._looked_at = 0.0  # when `check_alone`, which is called at each token, last looked at the folder
        self._launcher = os.getppid() if is_launched() else None

    def is_asked(self) -> bool:
        """
        Whether any process was asked to stop. All processes must call this at the same place, and get the same answer.

        Raises `ValueError` if the run's folder is gone.
        """
        from accelerate.utils import gather_object  # late: `GameInterrupted` is needed without torch

        found = gather_object([(self._is_asked_here(), self.find_loss())])
        for _, loss in found:
            if loss is not None:
                raise ValueError(loss)
        return any(is_asked for is_asked, _ in found)

    def _is_asked_here(self) -> bool:
        has_lost_launcher = self._launcher is not None and os.getppid() != self._launcher
        return self._asked_at is not None or has_lost_launcher

    def check(self) -> None:
        """Stop all processes, by a `GameInterrupted` on each, if any of them was asked to."""
        if self.is_asked():
            self.has_interrupted = True
            raise GameInterrupted

    @contextmanager
    def sharing(self) -> Iterator[None]:
        """
        Do this process's share of some work within the block, which ends between two tokens or batches if it was asked
        to stop.

        Nothing in the block may wait for other processes.

        Raises `GameInterrupted` after the block, on all processes, if any of them was asked to stop.
        """
        with suppress(GameInterrupted), stoppable(self.check_alone):
            yield
        self.check()

    def check_alone(self) -> None:
        """
        Stop this process alone, by a `GameInterrupted`, if it was asked to or the run's folder is gone, while the
        others wait in [`check`]. It must call [`check`] afterwards.
        """
        is_due = time.monotonic() - self._looked_at > LOOK_SECONDS  # a network disk answers slowly
        if is_due:
            self._looked_at = time.monotonic()
        if self._is_asked_here() or (is_due and self.find_loss() is not None):
            raise GameInterrupted

    @contextmanager
    def listening(self) -> Iterator["StopRequest"]:
        """
        Catch signals within the block. In threads other than the main one, which receives signals, this does nothing.

        Raises `GameInterrupted` if the block was abandoned.
        """
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        self._is_answered.clear()  # a pilot may have listened before
        previous = {number: signal.signal(number, self._catch) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        except KeyboardInterrupt as err:
            raise GameInterrupted from err
        finally:
            self.allow_time()
            for number, handler in previous.items():
                signal.signal(number, handler)

    def allow_time(self) -> None:
        """Abandon nothing from now on, unless at a further signal: the answer to the request has begun."""
        self._is_answered.set()

    def _catch(self, number: int, frame: FrameType | None) -> None:
        if self._asked_at is None:
            self._asked_at = time.monotonic()
            if is_main_process():
                # Not through the buffered streams: they fail if a handler interrupts another write. Nobody may read it
                # any more: in `... 2>&1 | tee log`, Ctrl-C ends `tee`, too.
                with suppress(OSError):
                    os.write(2, f"\n{describe_request(number)}\n".encode())
            if can_abandon():
                threading.Thread(target=self._urge, daemon=True).start()
        elif time.monotonic() - self._asked_at > ECHO_SECONDS:
            raise KeyboardInterrupt

    def _urge(self) -> None:
        """Give the second signal in the user's place; again and again, as `__del__` and the like swallow any error."""
        # A thread, because the timers that give signals are taken by math-verify. A signal also ends a wait of the
        # main thread.
        main = threading.main_thread().ident
        assert main is not None
        while not self._is_answered.wait(GRACE_SECONDS):
            signal.pthread_kill(main, signal.SIGINT)
