"""Measures speed and memory of a game's phases, and compares them with the plan's estimates."""

import gc
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pandas as pd

from benchmarks.gpu_check.machine import compute_dtype, matrix_rate, read_peak, reset_peak
from benchmarks.gpu_check.meter import Meter
from pvg_hf.estimate.amounts import Amounts, Length, TextLengths, find_tokenizer, tokenizer_source
from pvg_hf.estimate.phase_costs import PHASE_COSTS
from pvg_hf.estimate.player_sizes import PlayerSize
from pvg_hf.estimate.round_plans import RoundPlan
from pvg_hf.game.callbacks import GameCallback
from pvg_hf.game.context import PhaseContext
from pvg_hf.models.verifier_input import VerifierInput

Save = Callable[[dict[str, Any]], None]


class PhaseMeasures(GameCallback):
    """
    Measures every phase that is played.

    Args:
        plan ([`RoundPlan`]):
            Plan of the game, with the estimates.
        figures (`dict[str, Any]`):
            Receives each phase's figures in `phases`, by its name.
        save (`Callable`):
            Called with `figures` after each phase.
    """

    def __init__(self, plan: RoundPlan, figures: dict[str, Any], save: Save):
        self.plan, self.figures, self.save = plan, figures, save
        self.meter = Meter()
        self.matrix_rate = matrix_rate(compute_dtype())
        self._started = 0.0

    def on_phase_begin(self, context: PhaseContext) -> None:
        gc.collect()
        reset_peak()
        self.meter.reset()
        self._started = time.perf_counter()

    def on_phase_end(self, context: PhaseContext) -> None:
        seconds = time.perf_counter() - self._started
        name = context.phase.name
        peak, reserved = read_peak()
        of_phase = {"seconds": round(seconds, 2), **self._speed(context), "num_halvings": self.meter.num_halvings}
        of_phase |= {"peak_gb": round(peak / 1e9, 3), "reserved_gb": round(reserved / 1e9, 3)}
        of_phase |= compare_with_plan(self.plan, context, peak, sum(self.meter.seconds.values()))
        self.figures["phases"][name] = of_phase
        if context.processes.is_main_process:
            self.save(self.figures)

    def _speed(self, context: PhaseContext) -> dict[str, Any]:
        """Tokens per second and model FLOPs utilisation (relative to the measured matrix rate), by kind of work."""
        meter, sizes, tokens = self.meter, self.plan.sizes, self.meter.tokens
        learner = "verifier" if context.phase.name == "verifier" else "prover"
        flops = {
            "writing": 2 * (tokens["written"] + tokens["prompted"]) * sizes["prover"].num_multiplied,
            "scoring": 2 * tokens["scored"] * sizes["verifier"].num_multiplied,
            "training": tokens["trained"] * training_flops(sizes[learner], has_reference=_has_reference(context)),
        }
        found: dict[str, Any] = {"seconds_of": {kind: round(number, 2) for kind, number in meter.seconds.items()}}
        for kind, name in (("writing", "written"), ("scoring", "scored"), ("training", "trained")):
            seconds = meter.seconds.get(kind, 0.0)
            if tokens[name] and seconds:
                found[f"{name}_tokens_per_second"] = round(tokens[name] / seconds, 1)
                # The warmup trains both players, so that its FLOPs are not known per player.
                if context.phase.name != "warmup":
                    found[f"{kind}_mfu"] = round(flops[kind] / seconds / self.matrix_rate, 4)
        if meter.usual_step is not None:
            found |= {"num_steps": len(meter.step_seconds), "step_seconds": round(meter.usual_step, 3)}
        return found


def training_flops(size: PlayerSize, *, has_reference: bool) -> int:
    """
    Floating-point operations per trained token.

    They are 2 per weight for the forward pass, 2 per weight for the gradients of the activations, 2 per trained weight for its
    gradient, and 2 per weight of a KL reference. Recomputation for activation checkpointing is not counted.
    """
    return (4 + 2 * has_reference) * size.num_multiplied + 2 * size.num_trained


def _has_reference(context: PhaseContext) -> bool:
    return context.phase.name == "prover" and context.recipe.prover.beta > 0


def compare_with_plan(plan: RoundPlan, context: PhaseContext, peak: int, worked: float) -> dict[str, Any]:
    """
    Compare a phase's measured memory and time with the plan.

    Args:
        plan ([`RoundPlan`]):
            Plan of the game.
        context ([`PhaseContext`]):
            Context of a finished phase.
        peak (`int`):
            Peak memory of tensors in bytes.
        worked (`float`):
            Seconds of sampling, scoring and training.

    Returns:
        `dict`: `planned_gb`, the estimate of `--plan` from the lengths of references; `planned_at_lengths_gb`, the estimate from
        the actual lengths of texts; and the ratios of the measured values to the latter.
    """
    phase = context.phase.name
    amounts = replace(plan.amounts, lengths=lengths_as_written(plan.amounts, context))
    planned, at_lengths = plan.work(phase), PHASE_COSTS[phase].work(amounts, plan.sizes)
    return {
        "planned_gb": round(planned.memory / 1e9, 3),
        "planned_at_lengths_gb": round(at_lengths.memory / 1e9, 3),
        "peak_over_planned": round(peak / at_lengths.memory, 3),
        "worked_seconds": round(worked, 2),
        "worked_over_planned": round(worked / plan.machine.seconds(at_lengths), 3),
    }


def lengths_as_written(amounts: Amounts, context: PhaseContext) -> TextLengths:
    """
    Actual lengths of the solutions that the phase read or wrote; those of the references as long as there are none.
    """
    kind = "base" if context.phase.name == "verifier" else "test-*"
    files = sorted((context.folder.root / "pool").rglob(f"{kind}.parquet"))
    if not files:
        return amounts.lengths
    rows = pd.concat([pd.read_parquet(file, columns=["problem", "solution", "num_tokens"]) for file in files])
    config = context.recipe.verifier
    tokenizer = find_tokenizer(*tokenizer_source(context.recipe, "verifier"))
    verifier_input = VerifierInput(config.template, tokenizer.eos_token, config.max_length)
    read = verifier_input.encode(tokenizer, rows["problem"].tolist(), rows["solution"].tolist())
    return replace(
        amounts.lengths,
        solution=Length.of(rows["num_tokens"].tolist()),
        verifier_input=Length.of([len(ids) for ids in read]).cap(config.max_length),
    )
