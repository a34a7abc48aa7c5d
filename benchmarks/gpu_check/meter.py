"""Counts seconds and tokens by kind of work, by wrapping the methods that do it."""

import time
from collections.abc import Callable
from functools import wraps
from statistics import median
from typing import Any

import torch
from accelerate.optimizer import AcceleratedOptimizer
from torch.distributed.fsdp import FSDPModule
from transformers import Trainer
from transformers.trainer_callback import CallbackHandler
from trl import GRPOTrainer, RewardTrainer, SFTTrainer

from benchmarks.gpu_check.machine import synchronize
from benchmarks.quickstart_round import Stopwatch
from pvg_hf import VerifierScorer
from pvg_hf.sampling import Sampler
from pvg_hf.sampling.engines import ContinuousSampler, VllmSampler
from pvg_hf.scoring.batching import TokenBudget
from pvg_hf.trainers.common.grpo import SampledGRPOTrainer


class Meter(Stopwatch):
    """
    Meter of all samplers, scorers and trainers of this process, from its construction on.

    Attributes:
        seconds (`dict[str, float]`):
            Seconds of `writing`, `scoring` and `training`, each without nested work, and of `gathering` sharded weights.
        tokens (`dict[str, int]`):
            Numbers of tokens `written`, `prompted` (each prompt once), `scored` (whole texts), and `trained` (without padding).
        num_halvings (`int`):
            Number of batches that were halved because they did not fit in memory.
    """

    def __init__(self):
        super().__init__()
        for sampler in (Sampler, ContinuousSampler, VllmSampler):
            self.watch(sampler, "sample_ids", "writing")
            self._count(sampler, "sample_ids", self._count_written)
        self.watch(SampledGRPOTrainer, "_generate_single_turn", "writing")
        self.watch(VerifierScorer, "__call__", "scoring")
        self._count(VerifierScorer, "__call__", self._count_scored)
        self.watch(Trainer, "training_step", "training")
        self.watch(AcceleratedOptimizer, "step", "training")
        self.watch(FSDPModule, "unshard", "gathering")
        for trainer, name in (
            (GRPOTrainer, "_compute_loss"),
            (RewardTrainer, "compute_loss"),
            (SFTTrainer, "compute_loss"),
        ):
            self._count(trainer, name, self._count_trained)
        for halving in (Sampler, TokenBudget):
            self._count(halving, "_halve", self._count_halving)
        for event in ("on_step_begin", "on_step_end"):
            self._note_time_before(CallbackHandler, event)
        self.reset()

    def reset(self) -> None:
        """Reset all counts to zero."""
        self.seconds.clear()
        self.tokens = {"written": 0, "prompted": 0, "scored": 0, "trained": 0}
        self.num_halvings = 0
        self._times: list[float] = []  # start and end of each step, alternating

    @property
    def step_seconds(self) -> list[float]:
        """Seconds of each optimiser step."""
        return [end - begin for begin, end in zip(self._times[::2], self._times[1::2], strict=False)]

    @property
    def usual_step(self) -> float | None:
        """Median seconds of a step; the first step, which includes setup, is left out if there are others."""
        steps = self.step_seconds
        return median(steps[1:] or steps) if steps else None

    def _book(self) -> None:
        synchronize()
        super()._book()

    def _count(self, owner: type, name: str, count: Callable[..., None]) -> None:
        """Call `count` with the result and the arguments after every call of a method."""
        method = getattr(owner, name)

        @wraps(method)
        def counted(*args, **kwargs):
            result = method(*args, **kwargs)
            count(result, *args, **kwargs)
            return result

        setattr(owner, name, counted)

    def _count_written(self, written: list[list[int]], sampler: Sampler, rows, uniforms) -> None:
        self.tokens["written"] += sum(map(len, written))
        self.tokens["prompted"] += sum(map(len, {tuple(row) for row in rows}))

    def _count_scored(self, scores: list[float], scorer: VerifierScorer, problems, solutions) -> None:
        inputs = scorer.verifier_input.encode(scorer.tokenizer, problems, solutions)
        self.tokens["scored"] += sum(min(len(ids), scorer.verifier_input.max_length) for ids in inputs)

    def _count_trained(self, loss: Any, trainer: Trainer, model, inputs: dict[str, Any], *args, **kwargs) -> None:
        if not trainer.model.training:
            return
        masks = [inputs[name] for name in ("prompt_mask", "completion_mask", "attention_mask") if name in inputs]
        seen = masks or [torch.ones_like(inputs["input_ids"])]
        self.tokens["trained"] += int(sum(mask.sum() for mask in seen))

    def _count_halving(self, *args) -> None:
        self.num_halvings += 1

    def _note_time_before(self, owner: type, name: str) -> None:
        """Record the time before each call of a method. A step ends here, because checkpoints may be evaluated after it."""
        method = getattr(owner, name)

        @wraps(method)
        def noted(*args, **kwargs):
            synchronize()
            self._times.append(time.perf_counter())
            return method(*args, **kwargs)

        setattr(owner, name, noted)
