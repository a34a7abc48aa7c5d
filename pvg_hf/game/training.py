"""
Runs a trainer inside a phase: resumes from its last checkpoint, stops gracefully, and records its log as metrics.
"""

import logging
import random
import tempfile
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object
from datasets import Dataset
from peft import PeftModel
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerBase,
    ProgressCallback,
    Trainer,
    TrainerCallback,
    TrainerState,
)
from transformers.trainer_callback import PrinterCallback

from pvg_hf.core.files import remove
from pvg_hf.core.integrity import DIGESTS, DamagedFileError, find_damaged, missing_files, read_json, write_digests
from pvg_hf.core.stopwatch import TRAINING, count_tokens, spending
from pvg_hf.core.units import show_seconds
from pvg_hf.game.context import PhaseContext, PlayerLoader
from pvg_hf.game.interrupt import GameInterrupted, StopRequest
from pvg_hf.game.labels import LabelSource
from pvg_hf.models.sources import name_base
from pvg_hf.models.token_flops import flops_per_token
from pvg_hf.run.console import shows_progress
from pvg_hf.run.layout import CHECKPOINTS
from pvg_hf.run.stored import CheckpointState
from pvg_hf.scoring import GenerativeVerifier, VerifierScorer
from pvg_hf.trainers.arguments import MAX_SEED
from pvg_hf.trainers.common.supervised import FineTuning, fine_tune

logger = logging.getLogger(__name__)

# Keys of a trainer's log that are not recorded: those that depend on time, and those recorded under better names.
# `train_loss` is the mean over the steps since the last start, so that an interruption changes it.
_UNRECORDED = frozenset(
    [
        "epoch",
        "num_tokens",
        "runtime",
        "samples_per_second",
        "step_time",
        "steps_per_second",
        "total_flos",
        "train_loss",
        "train_runtime",
        "train_samples_per_second",
        "train_steps_per_second",
    ]
)


def save_player(trainer: Trainer, output: Path, *, player: str, run: Path) -> None:
    """Save a trained player."""
    trainer.save_model(str(output))
    if trainer.is_world_process_zero():
        assert trainer.model is not None
        name_base(trainer.model, output, player=player, run=run)
    trainer.accelerator.wait_for_everyone()


def remove_training_files(output: Path, processes: PartialState) -> None:
    """
    Remove what only the training of a player in `output` needed: checkpoints and pickled arguments.

    This is the last act before the folder is renamed: if anything fails earlier, training resumes from its last
    checkpoint.
    """
    if processes.is_main_process:
        remove(output / CHECKPOINTS)
        for binary in output.rglob("training_args.bin"):
            binary.unlink()
    processes.wait_for_everyone()


def run_trainer(
    context: PhaseContext,
    trainer: Trainer,
    *,
    prefix: str,
    first_step: int = 0,
    resumable_every: int = 1,
    before_step: int | None = None,
) -> int:
    """
    Train from the newest complete checkpoint, or from the start. The context receives the metrics. Return the step
    from which training went on, 0 for the start.

    Training can resume only from checkpoints at multiples of `resumable_every` steps. Only those before `before_step`
    are used if results of this step must be written again.

    Raises:
        GameInterrupted: if the user asked to stop; a checkpoint was saved if the recipe saves any.
        KeyboardInterrupt: if the current step was abandoned; a checkpoint of the last whole step was saved.
    """
    stop = StopCallback(context.stop, is_resumable=trainer.args.save_strategy != "no", every=resumable_every)
    trainer.add_callback(stop)
    trainer.add_callback(TrackCallback(context.track, prefix, first_step))
    trainer.add_callback(DigestsCallback())
    trainer.remove_callback(PrinterCallback)
    if trainer.pop_callback(ProgressCallback) is not None:
        trainer.add_callback(PhaseProgress(str(context.phase)))
    elif context.recipe.logging.progress and context.processes.is_main_process:
        trainer.add_callback(ProgressLog(str(context.phase)))
    found = None
    assert trainer.args.output_dir is not None
    if context.processes.is_main_process:
        found = newest_checkpoint(Path(trainer.args.output_dir), before_step=before_step)
    (checkpoint,) = broadcast_object_list([found])
    if checkpoint is not None:
        context.event("continued", checkpoint=checkpoint.name)
    if trainer.args.device.type == "cpu":
        assert trainer.model is not None
        _answer_signals_in_backward(trainer.model)
    try:
        with spending(TRAINING):  # what is left of it when the solutions are written, graded and scored
            trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    except KeyboardInterrupt:
        stop.save_last_step(trainer)
        raise
    if stop.has_stopped:
        raise GameInterrupted
    for entry in trainer.state.log_history:
        if values := _recorded_figures(entry, prefix):
            context.record(values, step=first_step + int(entry["step"]), is_tracked=True)
    return 0 if checkpoint is None else _step_of(checkpoint)


def _answer_signals_in_backward(model: torch.nn.Module) -> None:
    """
    Let a backward pass, which may take a minute on a CPU, be abandoned: Python acts on signals only in its own code.
    """
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(lambda parameter: None)


def _recorded_figures(entry: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the recorded entries of a trainer's log, sorted by key as they are after a resume."""
    return {f"{prefix}/{key}": value for key, value in sorted(entry.items()) if is_recorded(key)}


def is_recorded(key: str) -> bool:
    """Whether a key of a trainer's log is recorded in the run's metrics, which must not depend on time."""
    name = key.removeprefix("eval_")
    return key != "step" and name not in _UNRECORDED and not name.startswith("profiling/")


def newest_checkpoint(output: Path, *, before_step: int | None = None) -> Path | None:
    """Newest complete checkpoint with a complete best checkpoint; incomplete and damaged ones are skipped."""
    found = sorted(output.glob("checkpoint-*"), key=_step_of, reverse=True)
    found = [path for path in found if before_step is None or _step_of(path) < before_step]
    return next((path for path in found if _is_whole(path) and _is_best_whole(path)), None)


def _step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def _is_best_whole(checkpoint: Path) -> bool:
    """Whether the best checkpoint, which training restores at its end, is complete; True if none is kept."""
    best = read_json(checkpoint / "trainer_state.json", CheckpointState).best_model_checkpoint
    return best is None or _is_whole(checkpoint.parent / Path(best).name)


def _is_whole(checkpoint: Path) -> bool:
    """Whether a checkpoint has its digests, which are written last, and all files that they list."""
    damage = next(find_damaged(checkpoint), None)
    if damage is None:
        missing = [checkpoint / DIGESTS] if not (checkpoint / DIGESTS).exists() else missing_files(checkpoint)
        damage = DamagedFileError(missing[0], "is missing") if missing else None
    if damage is not None:
        logger.warning("Skipping %s: %s %s.", checkpoint, damage.path.relative_to(checkpoint), damage.what)
    return damage is None


def fine_tuning_settings(
    players: PlayerLoader,
    output: Path,
    *,
    seed: int,
    max_steps: int,
    batch_size: int,
    learning_rate: float,
    max_length: int,
    save_steps: int | None = None,
) -> FineTuning:
    """
    Return the settings of a player's fine-tuning; `batch_size` is the rows per step of all processes together.
    """
    return FineTuning(
        max_steps=max_steps,
        batch_size=max(1, batch_size // players.processes.num_processes),
        learning_rate=learning_rate,
        max_length=max_length,
        seed=seed % MAX_SEED,
        output_dir=str(output),
        use_cpu=players.processes.device.type == "cpu",
        show_progress=shows_progress(players.recipe.logging),
        save_steps=save_steps,
    )


def fine_tune_player(
    players: PlayerLoader, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Dataset, **settings: Any
) -> None:
    """
    Fine-tune a player in place on prompts and completions; the trainer's own files are not kept.

    `settings` are those of [`fine_tuning_settings`].
    """
    with tempfile.TemporaryDirectory() as scratch, spending(TRAINING):
        log = fine_tune(model, tokenizer, rows, fine_tuning_settings(players, Path(scratch), **settings))
        count_trained(log, model, players.processes)


def count_trained(log: list[dict[str, float]], model: PreTrainedModel | PeftModel, processes: PartialState) -> None:
    """Count the tokens of the steps in a fine-tuning's log."""
    num_tokens = int(max((line.get("num_tokens", 0) for line in log), default=0)) // processes.num_processes
    count_tokens(num_tokens, flops_per_token(model, is_trained=True))


class StopCallback(TrainerCallback):
    """
    Ends training when the user asks to stop, at a multiple of `every` steps; with `is_resumable`, a checkpoint is
    saved there.
    """

    def __init__(self, stop: StopRequest, *, is_resumable: bool, every: int = 1):
        self.stop = stop
        self.is_resumable = is_resumable
        self.every = every
        self.has_stopped = False
        self._random_states: tuple | None = None  # before the current step; `None` while it changes weights

    def on_step_begin(self, args, state, control, **kwargs):
        is_kept = self.is_resumable and state.global_step > 0 and state.global_step % self.every == 0
        self._random_states = _get_random_states() if is_kept else None

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        self._random_states = None

    def save_last_step(self, trainer: Trainer) -> None:
        """
        Save a checkpoint of the last whole step from the middle of the next one, which was abandoned.

        It is the same as one saved between the two, since a step changes only random states before its end. Nothing is
        saved if training cannot resume from that step.
        """
        assert trainer.args.output_dir is not None
        assert trainer.model is not None
        checkpoint = Path(trainer.args.output_dir) / f"checkpoint-{trainer.state.global_step}"
        if self._random_states is None or checkpoint.exists():
            return
        self.stop.allow_time()
        logger.info("Saving %s; the step after it will be repeated", checkpoint.name)
        _set_random_states(self._random_states)
        trainer._save_checkpoint(trainer.model, trial=None)
        trainer.callback_handler.on_save(trainer.args, trainer.state, trainer.control)

    def on_step_end(self, args, state, control, **kwargs):
        # After the last step, the rest of the phase is short, so that it is finished.
        is_last = state.global_step >= state.max_steps
        if state.global_step % self.every == 0 and not is_last and self.stop.is_asked():
            self._end(control, can_resume=True)

    def on_log(self, args, state, control, **kwargs):
        # An evaluation of this step was cut short; it is made when training resumes from the step.
        if self.stop.has_interrupted and not self.has_stopped:
            # Training cannot resume from a step at which a rule ended it, see `Monitors`.
            is_over = control.should_training_stop and state.global_step < state.max_steps
            self._end(control, can_resume=state.global_step % self.every == 0 and not is_over)

    def _end(self, control, *, can_resume: bool) -> None:
        self.has_stopped = True
        control.should_training_stop = True
        control.should_save = self.is_resumable and can_resume
        if control.should_save and not control.should_evaluate:
            self.stop.allow_time()  # the checkpoint is written next, and half of one is of no use


def _get_random_states() -> tuple:
    """States of the generators that a trainer's checkpoint holds."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return random.getstate(), np.random.get_state(), torch.get_rng_state(), cuda


def _set_random_states(states: tuple) -> None:
    of_python, of_numpy, of_torch, of_cuda = states
    random.setstate(of_python)
    np.random.set_state(of_numpy)
    torch.set_rng_state(of_torch)
    if of_cuda:
        torch.cuda.set_rng_state_all(of_cuda)


class BestStepCallback(TrainerCallback):
    """
    Ends a training after `patience` validations in a row that were not better than the best one, if it is given.

    transformers' `EarlyStoppingCallback` would start counting again on a resume, and a checkpoint would be saved at
    the last validation, from which a killed phase would train on.
    """

    def __init__(self, patience: int | None = None):
        self.patience = patience

    def on_train_begin(self, args, state, control, **kwargs):
        if state.best_global_step:  # the run may have been moved since the checkpoint was saved
            state.best_model_checkpoint = str(Path(args.output_dir) / f"checkpoint-{state.best_global_step}")

    def on_evaluate(self, args, state, control, metrics: Mapping[str, float] | None = None, **kwargs):
        if self.patience is None or state.best_metric is None:
            return
        assert metrics is not None
        value = metrics[args.metric_for_best_model]
        is_better = value > state.best_metric if args.greater_is_better else value < state.best_metric
        if not is_better and state.global_step >= state.best_global_step + self.patience * state.eval_steps:
            control.should_training_stop = True
            control.should_save = False


class DigestsCallback(TrainerCallback):
    """Writes the digests of each checkpoint, so that later damage is detected."""

    def on_save(self, args, state, control, **kwargs):
        PartialState().wait_for_everyone()  # each process has written its own part
        if state.is_world_process_zero:
            write_digests(Path(args.output_dir) / f"checkpoint-{state.global_step}")


class TrackCallback(TrainerCallback):
    """Sends every step's figures to the game's tracker immediately."""

    def __init__(self, track: Callable[..., None], prefix: str, first_step: int):
        self.track = track
        self.prefix = prefix
        self.first_step = first_step

    def on_log(self, args, state, control, logs: Mapping[str, Any] | None = None, **kwargs):
        self.track(_recorded_figures(logs or {}, self.prefix), step=self.first_step + state.global_step)


class PhaseProgress(ProgressCallback):
    """Progress bar with the phase's name and a few figures, instead of a printed line per step."""

    SHOWN: ClassVar = {"loss": "loss", "accuracy": "acc", "accuracy/helpful": "helpful", "accuracy/sneaky": "sneaky"}

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


class ProgressLog(TrainerCallback):
    """Logs how far a phase's training is and how long it still takes, where no progress bar is drawn."""

    WAIT = 60.0  # seconds between two lines

    def __init__(self, name: str):
        self.name = name
        self.first_step, self.begun, self.told = 0, 0.0, 0.0

    def on_train_begin(self, args, state, control, **kwargs):
        self.first_step, self.begun, self.told = state.global_step, time.monotonic(), time.monotonic()

    def on_step_end(self, args, state, control, **kwargs):
        now = time.monotonic()
        if now - self.told < self.WAIT or state.global_step == state.max_steps:
            return
        self.told = now
        left = (state.max_steps - state.global_step) * (now - self.begun) / (state.global_step - self.first_step)
        logger.info(
            "%s: step %d of %d; about %s left", self.name, state.global_step, state.max_steps, show_seconds(left)
        )


class StepFigures(TrainerCallback, ABC):
    """Adds figures to the log of each training step, and to the trainer's history."""

    @abstractmethod
    def step_figures(self, state: TrainerState) -> Mapping[str, float | None]:
        """Return the figures of the step that was just logged."""

    def on_log(self, args, state, control, logs: dict[str, Any] | None = None, **kwargs):
        if logs and "loss" in logs:
            figures = self.step_figures(state)
            logs.update(figures)
            state.log_history[-1].update(figures)


class LabelCallback(StepFigures):
    """
    Logs the counts of labels in every step; labels of later steps from an earlier start are dropped at the beginning.
    """

    def __init__(self, labels: LabelSource):
        self.labels = labels

    def on_train_begin(self, args, state, control, **kwargs):
        self.labels.begin(state.global_step)

    def step_figures(self, state: TrainerState) -> Mapping[str, float]:
        return self.labels.take_counts()

    def on_train_end(self, args, state, control, **kwargs):
        self.labels.close()


def count_over_processes(scorer: VerifierScorer | GenerativeVerifier) -> Counter[str]:
    """Sum the counts of all processes' scorers, each of which has scored its share."""
    counts: Counter[str] = Counter()
    for of_process in gather_object([scorer.counts]):
        counts.update(of_process)
    return counts


class CountsCallback(StepFigures):
    """
    Adds a scorer's new counts, such as cut inputs, to the log of every step.

    It must come after other callbacks that score in a step. Texts scored by every process, such as held-out solutions,
    count once per process.
    """

    def __init__(self, scorer: VerifierScorer | GenerativeVerifier):
        self.scorer = scorer
        self._known: Counter[str] = Counter()

    def on_train_begin(self, args, state, control, **kwargs):
        if state.log_history:  # an evaluation of the last step may just have been made
            last = Counter(self.step_figures(state))
            state.log_history[-1].update({name: state.log_history[-1].get(name, 0) + last[name] for name in last})

    def step_figures(self, state: TrainerState) -> Mapping[str, float]:
        counts = count_over_processes(self.scorer)
        new = dict(counts - self._known)  # keeps only counts that increased
        self._known = counts
        return new
