"""Callbacks of the round loop and of the trainers inside a phase."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from accelerate.utils import gather_object
from transformers import TrainerCallback, TrainerState

from pvg_hf.game.labels import LabelSource
from pvg_hf.scoring import GenerativeVerifier, VerifierScorer

if TYPE_CHECKING:
    from pvg_hf.game.context import PhaseContext


class GameCallback:
    """Base class of callbacks for [`play`]; a subclass may override any of its methods."""

    def on_phase_begin(self, context: "PhaseContext") -> None:
        """Called before a phase is played, on every process."""

    def on_phase_end(self, context: "PhaseContext") -> None:
        """Called after a phase's results appeared in the run's folder."""


class StepFigures(TrainerCallback, ABC):
    """Adds figures to the log of each training step, and to the trainer's history."""

    @abstractmethod
    def step_figures(self, state: TrainerState) -> Mapping[str, float]:
        """Return the figures of the step that was just logged."""

    def on_log(self, args, state, control, logs: dict[str, Any], **kwargs):
        if "loss" in logs:
            figures = self.step_figures(state)
            logs.update(figures)
            state.log_history[-1].update(figures)


class LabelCallback(StepFigures):
    """
    Logs the counts of labels in every step.

    When training starts or resumes from a checkpoint, labels of later steps from an earlier start are dropped.
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

    It must come after other callbacks that score in a step. Texts scored by every process, such as held-out solutions, count
    once per process.
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
