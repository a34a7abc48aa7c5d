"""
Times the optimiser steps of a phase, and counts what does not fit in memory at once, by wrapping the methods that do
it.
"""

import time
from collections.abc import Callable
from functools import wraps
from statistics import median

from transformers.trainer_callback import CallbackHandler

from pvg_hf.core.stopwatch import Spent, TimeSplit, spent_so_far
from pvg_hf.sampling import Sampler
from pvg_hf.sampling.static_sampler import StaticSampler
from pvg_hf.scoring.batching import TokenBudget
from tools.gpu_check.machine import synchronize


class Meter:
    """
    Meter of all trainers, samplers and scorers of this process, from its construction on.

    Attributes:
        num_halvings (`int`):
            Number of batches that were halved because they did not fit in memory.
    """

    def __init__(self):
        self.reset()
        _call_before(CallbackHandler, "on_step_begin", self._begin_step)
        _call_before(CallbackHandler, "on_step_end", self._end_step)  # checkpoints may be evaluated after it
        for halving, name in ((Sampler, "_halve"), (StaticSampler, "_shrink"), (TokenBudget, "_halve")):
            _call_before(halving, name, self._count_halving)

    def reset(self) -> None:
        """Reset everything to the beginning of a phase."""
        self.num_halvings = 0
        self.step_seconds: list[float] = []
        self._began = 0.0
        self._splits: list[TimeSplit] = []  # at the end of each step

    @property
    def usual_step(self) -> float | None:
        """Median seconds of a step; the first step, which includes setup, is left out if there are others."""
        return median(self.step_seconds[1:] or self.step_seconds) if self.step_seconds else None

    @property
    def later_steps(self) -> TimeSplit:
        """Time split from the end of the first step to that of the last; empty for fewer than two steps."""
        if len(self._splits) < 2:
            return {}
        first, last = self._splits[0], self._splits[-1]
        return {kind: _less(spent, first.get(kind, Spent())) for kind, spent in last.items()}

    def _begin_step(self) -> None:
        synchronize()
        self._began = time.perf_counter()

    def _end_step(self) -> None:
        synchronize()
        self.step_seconds.append(time.perf_counter() - self._began)
        self._splits.append(spent_so_far())

    def _count_halving(self) -> None:
        self.num_halvings += 1


def _less(spent: Spent, before: Spent) -> Spent:
    return Spent(spent.seconds - before.seconds, spent.tokens - before.tokens, spent.flops - before.flops)


def _call_before(owner: type, name: str, function: Callable[[], None]) -> None:
    """Call a function before every call of a method."""
    method = getattr(owner, name)

    @wraps(method)
    def wrapped(*args, **kwargs):
        function()
        return method(*args, **kwargs)

    setattr(owner, name, wrapped)
