"""Measures speed and memory of a game's phases, and compares memory with the plan's estimate."""

import gc
from collections.abc import Callable, Container
from dataclasses import replace
from typing import Any

import pandas as pd

from pvg_hf.check.phase_costs import Amounts, Length, TextLengths, count_tokens, peak_memory
from pvg_hf.check.player_sizes import find_tokenizer, tokenizer_source
from pvg_hf.check.round_plans import RoundPlan
from pvg_hf.core.stopwatch import OTHER, PAST_PARTICIPLES, Spent, TimeSplit
from pvg_hf.game.context import GameCallback, PhaseContext
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.run.phase_record import read_record
from tools.gpu_check.machine import compute_dtype, matrix_rate, read_peak, reset_peak
from tools.gpu_check.meter import Meter

Save = Callable[[dict[str, Any]], None]


class PhaseMeasures(GameCallback):
    """
    Measures the phases that are played.

    Args:
        figures: Receives each phase's figures in `phases`, by its name.
        save: Called with `figures` after each phase.

    Attributes:
        plan ([`RoundPlan`]):
            Plan of the game that is played, with the estimates.
        phases (`Container[str]`):
            Names of the phases whose figures are wanted.
    """

    plan: RoundPlan
    phases: Container[str]

    def __init__(self, figures: dict[str, Any], save: Save):
        self.figures, self.save = figures, save
        self.meter = Meter()
        self.matrix_rate = matrix_rate(compute_dtype())

    def on_phase_begin(self, context: PhaseContext) -> None:
        gc.collect()
        reset_peak()
        self.meter.reset()

    def on_phase_end(self, context: PhaseContext) -> None:
        if context.phase.name not in self.phases:
            return
        record = read_record(context.phase.target(context.folder))
        split = record.split
        peak, reserved = read_peak()
        worked = sum(spent.seconds for kind, spent in split.items() if kind != OTHER)
        of_phase = {"seconds": round(record.seconds, 2), **self._speed(split), "num_halvings": self.meter.num_halvings}
        of_phase |= {"peak_gb": round(peak / 1e9, 3), "reserved_gb": round(reserved / 1e9, 3)}
        of_phase |= {"worked_seconds": round(worked, 2), **compare_with_plan(self.plan, context, peak)}
        self.figures["phases"][context.phase.name] = of_phase
        if context.processes.is_main_process:
            self.save(self.figures)

    def _speed(self, split: TimeSplit) -> dict[str, Any]:
        """Tokens per second and model FLOPs utilisation (relative to the measured matrix rate), by kind of work."""
        found: dict[str, Any] = {"seconds_of": {kind: round(spent.seconds, 2) for kind, spent in split.items()}}
        for kind, name in PAST_PARTICIPLES.items():
            # The first step includes setup, such as compilation.
            spent = self.meter.later_steps.get(kind, split.get(kind, Spent()))
            if spent.tokens_per_second is not None:
                found[f"{name}_tokens_per_second"] = round(spent.tokens_per_second, 1)
                found[f"{kind}_mfu"] = round(spent.mfu(self.matrix_rate) or 0.0, 4)
        if self.meter.usual_step is not None:
            found |= {"num_steps": len(self.meter.step_seconds), "step_seconds": round(self.meter.usual_step, 3)}
        return found


def compare_with_plan(plan: RoundPlan, context: PhaseContext, peak: int) -> dict[str, Any]:
    """
    Compare a phase's measured memory with the plan.

    Args:
        plan: Plan of the game.
        context: Context of a finished phase.
        peak: Peak memory of tensors in bytes.
    Returns: `planned_gb`, the estimate of `--plan` from the lengths of references; `planned_tokens` and
        `planned_at_lengths_gb`, from the actual lengths of texts; and the ratio of the measured peak to the latter.
    """
    phase = context.phase.name
    amounts = replace(plan.amounts, lengths=lengths_as_written(plan.amounts, context))
    at_lengths = peak_memory(phase, amounts, plan.sizes)
    return {
        "planned_tokens": sum(count_tokens(phase, amounts).values()),
        "planned_gb": round(plan.memory(phase) / 1e9, 3),
        "planned_at_lengths_gb": round(at_lengths / 1e9, 3),
        "peak_over_planned": round(peak / at_lengths, 3),
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
