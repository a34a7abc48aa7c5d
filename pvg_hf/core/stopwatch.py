"""
Measures what a phase spends its time on, by kind of work.

Code that does such work encloses it in [`spending`], wherever it runs; it is measured inside [`measuring`], and
otherwise nothing happens. Seconds inside two kinds count for the inner one, except that `evaluating` keeps all seconds
inside it.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

WRITING, GRADING, SCORING, TRAINING, EVALUATING = "writing", "grading", "scoring", "training", "evaluating"
OTHER = "other"  # everything else, such as loading models and writing files
UNKNOWN = "unknown"  # a start that was killed, whose split is lost
KINDS = (WRITING, GRADING, SCORING, TRAINING, EVALUATING, OTHER, UNKNOWN)

PAST_PARTICIPLES = {WRITING: "written", SCORING: "scored", TRAINING: "trained"}
"""Participles that describe a token, such as `written`, by the kind of work."""

SMALL = 0.005  # shares below this are not shown


@dataclass(frozen=True)
class Spent:
    """Time, tokens and operations of a kind of work."""

    seconds: float = 0.0
    tokens: int = 0  # that were written, scored or trained on, without padding
    flops: float = 0.0  # that the models need for these tokens, without those that are repeated to save memory

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.seconds + other.seconds, self.tokens + other.tokens, self.flops + other.flops)

    @property
    def tokens_per_second(self) -> float | None:
        """`None` for a kind of work without tokens."""
        return self.tokens / self.seconds if self.tokens and self.seconds else None

    def mfu(self, peak_flops: float | None) -> float | None:
        """Model FLOPs utilisation: operations per second over the device's peak; `None` if either is unknown."""
        return self.flops / self.seconds / peak_flops if peak_flops and self.flops and self.seconds else None


TimeSplit = dict[str, Spent]  # by the kind of work


class Stopwatch:
    """Measures this process's time from its construction on."""

    def __init__(self):
        self.split: TimeSplit = {}  # up to the last change of the kind of work
        self._kind = OTHER
        self._since = time.perf_counter()

    @contextmanager
    def timing(self, kind: str) -> Iterator[None]:
        """Count the seconds inside the block for `kind`, unless an evaluation encloses it."""
        outer = self._kind
        self._change(outer if outer == EVALUATING else kind)
        try:
            yield
        finally:
            self._change(outer)

    def add(self, spent: Spent) -> None:
        """Add to the current kind of work."""
        self.split[self._kind] = self.split.get(self._kind, Spent()) + spent

    def read(self) -> TimeSplit:
        """Return the split up to now."""
        self._change(self._kind)
        return dict(self.split)

    def _change(self, kind: str) -> None:
        _wait_for_gpu()
        now = time.perf_counter()
        self.add(Spent(now - self._since))
        self._kind, self._since = kind, now


def _wait_for_gpu() -> None:
    """Wait for the operations that a GPU still has to do, since they belong to the work that started them."""
    torch = sys.modules.get("torch")  # a process that has not imported it uses no GPU
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()


_running: ContextVar[Stopwatch | None] = ContextVar("stopwatch", default=None)  # other threads have none


@contextmanager
def measuring() -> Iterator[Stopwatch]:
    """Measure all work of this thread inside the block."""
    watch = Stopwatch()
    token = _running.set(watch)
    try:
        yield watch
    finally:
        _running.reset(token)


@contextmanager
def spending(kind: str) -> Iterator[None]:
    """Count the seconds inside the block, or inside the decorated function, for a kind of work."""
    watch = _running.get()
    if watch is None:
        yield
        return
    with watch.timing(kind):
        yield


def count_tokens(number: int, flops_per_token: float = 0.0) -> None:
    """Count tokens for the current kind of work."""
    watch = _running.get()
    if watch is not None:
        watch.add(Spent(0.0, number, number * flops_per_token))


def spent_so_far() -> TimeSplit:
    """Split of the time that is measured now; empty if none is."""
    watch = _running.get()
    return {} if watch is None else watch.read()


def add_splits(first: TimeSplit, second: TimeSplit) -> TimeSplit:
    """Add the time splits of two parts of a phase."""
    return {kind: first.get(kind, Spent()) + second.get(kind, Spent()) for kind in KINDS if kind in first | second}


def describe_shares(split: TimeSplit) -> str:
    """
    Describe the shares of the kinds of work, the largest first, e.g. `61 % writing, 39 % training`; small ones are
    left out.
    """
    return ", ".join(f"{100 * share:.0f} % {kind}" for kind, share in shares_of(split).items() if share >= SMALL)


def shares_of(split: TimeSplit) -> dict[str, float]:
    """Share of the time by kind of work, the largest first; empty without any time."""
    total = sum(spent.seconds for spent in split.values())
    shares = {kind: spent.seconds / total for kind, spent in split.items() if total}
    return dict(sorted(shares.items(), key=lambda item: -item[1]))
