"""Monitors of a prover's training: the stop rule, the watchdogs, and the step at which parity is reached."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from accelerate import PartialState
from transformers import TrainerCallback

from pvg_hf.config import Recipe
from pvg_hf.core.acceptance import Acceptance
from pvg_hf.core.roles import Role
from pvg_hf.evaluation.prover_figures import last_early_step
from pvg_hf.game.honest_solutions import HonestSide
from pvg_hf.game.watchdogs import FalsePositiveWatch, Watchdogs
from pvg_hf.rewards import load_reward
from pvg_hf.trainers.prover.config import ProverGRPOConfig
from pvg_hf.trainers.prover.metrics import observed_metrics
from pvg_hf.trainers.prover.stopping import ParityClock, StopRule


class Monitor(Protocol):
    """Follows the figures of a training."""

    def update(self, step: int, figures: Mapping[str, float]) -> str | None:
        """Take a step's figures, and return the reason why the training should end, if any."""


class Monitors(TrainerCallback):
    """
    All monitors of a prover's training, which ends after the first step in which one of them has a reason.

    When training resumes, they first get the figures of all steps before the checkpoint, so that their state is the
    same as without an interruption.

    Args:
        recipe: Settings with the prover of this training, which may train one role of several.
        has_noisy_labels: Whether the reward uses observed labels instead of the grades. With
            `stopping.labels: observed`, these also decide.
        can_recover: Whether a collapse of the sneaky role ends the training if there is a recovery from it.

    Attributes:
        reason: Why the training ends.
    """

    def __init__(
        self,
        recipe: Recipe,
        alert: Callable[[str, str], None],
        args: ProverGRPOConfig,
        roles: Sequence[Role],
        honest: HonestSide,
        folder: Path,
        *,
        has_noisy_labels: bool,
        can_recover: bool,
    ):
        stopping, prover, config = recipe.stopping, recipe.prover, recipe.watchdogs
        if not can_recover:  # a collapse then only raises an alert
            config = replace(config, collapse_recovery="none")
        self.rule = StopRule(stopping, prover, fixed=honest.deciding)
        self.parity = ParityClock(stopping, prover, honest.clean)
        self.watchdogs = Watchdogs(
            config,
            alert,
            num_steps=prover.num_batches,
            sneaky_groups=prover.prompts_per_step // len(roles) if Role.SNEAKY in roles else 0,
            fixed=honest.deciding,
        )
        assert args.acceptance_threshold is not None  # the game sets it
        self.false_positives = FalsePositiveWatch(
            config,
            folder,
            alert,
            last_step=last_early_step(args.max_steps, config.false_positive_window, args.steps_per_batch),
            acceptance=Acceptance(args.acceptance_threshold),
            has_checker=has_noisy_labels,
            pays_scores=prover.self_evaluation is not None or not load_reward(prover.reward).is_gated,
            is_main=PartialState().is_main_process,
        )
        self.reason: str | None = None
        self._decides_by_observed = has_noisy_labels and stopping.labels == "observed"
        self._deciding: tuple[Monitor, ...] = (self.rule, self.watchdogs, self.false_positives)

    def on_train_begin(self, args, state, control, **kwargs):
        self.false_positives.begin(state.global_step)
        for entry in state.log_history:
            self._update(entry["step"], entry)

    def on_log(self, args, state, control, logs: Mapping[str, Any] | None = None, **kwargs):
        if logs and self._update(state.global_step, logs):
            control.should_training_stop = True
            # No checkpoint: resumed from it, training would take another step before it could end.
            control.should_save = False

    def _update(self, step: int, figures: Mapping[str, float]) -> bool:
        self.parity.update(step, figures)  # on clean labels
        if self._decides_by_observed:
            figures = observed_metrics(figures)
        reasons = [reason for monitor in self._deciding if (reason := monitor.update(step, figures))]
        if reasons and self.reason is None:
            self.reason = reasons[0]
        return bool(reasons)
