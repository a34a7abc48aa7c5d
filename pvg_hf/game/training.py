"""Runs a trainer inside a phase: from its last checkpoint, to a graceful end, with its log as the phase's metrics."""

import logging
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from transformers import ProgressCallback, Trainer, TrainerCallback
from transformers.trainer_callback import PrinterCallback

from pvg_hf.game.context import PhaseContext
from pvg_hf.game.folder import read_json
from pvg_hf.game.interrupt import StopRequest

logger = logging.getLogger(__name__)

# Of a trainer's log: what depends on the clock, what says nothing, and what is told under a better name.
_UNRECORDED = frozenset(
    "epoch step_time total_flos train_runtime train_samples_per_second train_steps_per_second num_tokens".split()
)
_CHECKPOINT_FILES = ("trainer_state.json", "optimizer.pt", "scheduler.pt")


def run_trainer(context: PhaseContext, trainer: Trainer, *, prefix: str, first_step: int = 0) -> None:
    """
    Train from the newest whole checkpoint, or from the start.

    Args:
        context ([`PhaseContext`]):
            The phase; it receives the metrics.
        trainer ([`~transformers.Trainer`]):
            Set up and not yet trained.
        prefix (`str`):
            Of the metrics' keys, `verifier` or `prover`.
        first_step (`int`, defaults to 0):
            Steps of the phase before this trainer's.

    Raises:
        GameInterrupted: if the user asked to stop; a checkpoint was kept.
    """
    trainer.add_callback(StopCallback(context.stop, is_resumable=trainer.args.save_strategy != "no"))
    trainer.remove_callback(PrinterCallback)
    if trainer.pop_callback(ProgressCallback) is not None:
        trainer.add_callback(PhaseProgress(f"{context.phase} {prefix}"))
    checkpoint = newest_checkpoint(Path(trainer.args.output_dir))
    trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    if context.stop.is_set:
        context.stop.check()
    for entry in trainer.state.log_history:
        values = {f"{prefix}/{key}": value for key, value in entry.items() if is_recorded(key)}
        if values:
            context.record(values, step=first_step + entry["step"])


def is_recorded(key: str) -> bool:
    """Whether a key of a trainer's log goes into the run's metrics, which must not depend on the clock."""
    return key != "step" and key not in _UNRECORDED and not key.startswith("profiling/")


def newest_checkpoint(output: Path) -> Path | None:
    """The newest checkpoint of which every file is there; one that a crash cut short is passed over."""
    found = sorted(output.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]), reverse=True)
    return next((path for path in found if _is_whole(path)), None)


def _is_whole(checkpoint: Path) -> bool:
    has_random_state = any(checkpoint.glob("rng_state*.pth"))
    if not has_random_state or not all((checkpoint / name).exists() for name in _CHECKPOINT_FILES):
        return False
    try:
        read_json(checkpoint / "trainer_state.json")
    except ValueError:
        return False
    return True


class StopCallback(TrainerCallback):
    """Ends training at the next step when the user asked to, with a checkpoint if the recipe keeps any."""

    def __init__(self, stop: StopRequest, *, is_resumable: bool):
        self.stop = stop
        self.is_resumable = is_resumable

    def on_step_end(self, args, state, control, **kwargs):
        if self.stop.is_set:
            control.should_training_stop = True
            control.should_save = self.is_resumable


class PhaseProgress(ProgressCallback):
    """TRL's progress bar with a phase's name and a few figures, in place of a printed line per step."""

    SHOWN = {"loss": "loss", "accuracy": "acc", "accuracy/helpful": "helpful", "accuracy/sneaky": "sneaky"}

    def __init__(self, name: str):
        super().__init__()
        self.name = name

    def on_train_begin(self, args, state, control, **kwargs):
        super().on_train_begin(args, state, control, **kwargs)
        if self.training_bar is not None:
            self.training_bar.set_description(self.name)

    def on_log(self, args, state, control, logs: Mapping[str, Any] | None = None, **kwargs):
        if self.training_bar is not None and logs:
            shown = {name: f"{logs[key]:.2f}" for key, name in self.SHOWN.items() if isinstance(logs.get(key), float)}
            self.training_bar.set_postfix(shown)


class LogCallback(TrainerCallback):
    """
    Hands every step's figures to a function, and again those of the steps before a checkpoint that training goes on
    from, so that what the function keeps is the same as if there had been no interruption.

    Args:
        listener (`Callable`):
            `(step, figures) -> stop`; training ends where it returns True.
    """

    def __init__(self, listener: Callable[[int, Mapping[str, float]], bool]):
        self.listener = listener

    def on_train_begin(self, args, state, control, **kwargs):
        for entry in state.log_history:
            self.listener(entry["step"], entry)

    def on_log(self, args, state, control, logs: Mapping[str, Any] | None = None, **kwargs):
        if logs and self.listener(state.global_step, logs):
            control.should_training_stop = True


class FiniteLossCallback(TrainerCallback):
    """Ends a run whose loss is not finite, before anything is saved from it."""

    def on_log(self, args, state, control, logs: Mapping[str, Any] | None = None, **kwargs):
        loss = (logs or {}).get("loss", 0.0)
        if loss is not None and not math.isfinite(loss):
            raise FloatingPointError(
                f"The loss of step {state.global_step} is {loss}. Lower `learning_rate` or `max_grad_norm`, or compute "
                "in float32; the phase starts from its last checkpoint when the run is continued."
            )
