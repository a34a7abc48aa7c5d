"""Callbacks of the round loop and of the trainers inside a phase."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pvg_hf.game.context import PhaseContext
from collections import Counter
from collections.abc import Mapping
from typing import Any

from accelerate.utils import gather_object
from transformers import TrainerCallback, TrainerState

from pvg_hf.game.labels import LabelSource
from pvg_hf.scoring import GenerativeVerifier, VerifierScorer


class GameCallback:
    """Subclass it and pass an instance to [`play`]; every method may be left out."""

    def on_phase_begin(self, context: "PhaseContext") -> None:
        """Before a phase is played, on every process."""

    def on_phase_end(self, context: "PhaseContext") -> None:
        """After its results appeared in the run's folder."""


class StepFigures(TrainerCallback):
    """Adds figures to the log of each training step, in the trainer's history too."""

    def step_figures(self, state: TrainerState) -> Mapping[str, float]:
        """The figures of the step that was just logged."""
        raise NotImplementedError

    def on_log(self, args, state, control, logs: dict[str, Any], **kwargs):
        if "loss" in logs:
            figures = self.step_figures(state)
            logs.update(figures)
            state.log_history[-1].update(figures)


class LabelCallback(StepFigures):
    """
    Begins where the trainer begins, be that at a checkpoint, and logs every step's counts.

    Args:
        labels ([`LabelSource`]):
            The labels that the trainer's reward reads.
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
    """The sums of what the processes' scorers have counted so far, each process having scored its share."""
    counts: Counter[str] = Counter()
    for of_process in gather_object([scorer.counts]):
        counts.update(of_process)
    return counts


class CountsCallback(StepFigures):
    """
    Adds to the log of every step what was counted in it, where anything was. What else scores in a step comes before it; what
    every process scores, such as held-out solutions, counts once for each.

    Args:
        scorer ([`VerifierScorer`] or [`GenerativeVerifier`]):
            The one that the steps are scored by.
    """

    def __init__(self, scorer: VerifierScorer | GenerativeVerifier):
        self.scorer = scorer
        self._known: Counter[str] = Counter()

    def step_figures(self, state: TrainerState) -> Mapping[str, float]:
        counts = count_over_processes(self.scorer)
        new = dict(counts - self._known)  # what is more than it was
        self._known = counts
        return new
