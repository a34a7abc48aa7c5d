"""Counts the inputs that were over the verifier's maximum length and were scored without their end."""

from typing import Any

from accelerate.utils import gather_object
from transformers import TrainerCallback

from pvg_hf.scoring import VerifierScorer


def count_cut(scorer: VerifierScorer) -> int:
    """How many inputs the processes' scorers have cut so far, each process having scored its share."""
    return sum(gather_object([scorer.num_cut]))


class CutCallback(TrainerCallback):
    """
    Adds `num_cut` to the log of every step in which an input was cut. What else scores in a step comes before it; what
    every process scores, such as held-out solutions, counts once for each.

    Args:
        scorer ([`VerifierScorer`]):
            The one that the steps are scored by.
    """

    def __init__(self, scorer: VerifierScorer):
        self.scorer = scorer
        self._num_known = 0

    def on_log(self, args, state, control, logs: dict[str, Any], **kwargs):
        if "loss" not in logs:
            return
        num_cut = count_cut(self.scorer)
        if num_cut > self._num_known:
            cut = {"num_cut": num_cut - self._num_known}
            logs.update(cut)
            state.log_history[-1].update(cut)
        self._num_known = num_cut
