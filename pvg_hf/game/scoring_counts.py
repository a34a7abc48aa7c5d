"""Counts what the verifier did not score whole: inputs over its maximum length, evaluations in which no score can be read."""

from collections import Counter
from typing import Any

from accelerate.utils import gather_object
from transformers import TrainerCallback

from pvg_hf.scoring import ScoreVerifier, VerifierScorer


def count_over_processes(scorer: VerifierScorer | ScoreVerifier) -> Counter[str]:
    """The sums of what the processes' scorers have counted so far, each process having scored its share."""
    counts: Counter[str] = Counter()
    for of_process in gather_object([scorer.counts]):
        counts.update(of_process)
    return counts


class CountsCallback(TrainerCallback):
    """
    Adds to the log of every step what was counted in it, where anything was. What else scores in a step comes before it; what
    every process scores, such as held-out solutions, counts once for each.

    Args:
        scorer ([`VerifierScorer`] or [`ScoreVerifier`]):
            The one that the steps are scored by.
    """

    def __init__(self, scorer: VerifierScorer | ScoreVerifier):
        self.scorer = scorer
        self._known: Counter[str] = Counter()

    def on_log(self, args, state, control, logs: dict[str, Any], **kwargs):
        if "loss" not in logs:
            return
        counts = count_over_processes(self.scorer)
        new = dict(counts - self._known)  # what is more than it was
        logs.update(new)
        state.log_history[-1].update(new)
        self._known = counts
