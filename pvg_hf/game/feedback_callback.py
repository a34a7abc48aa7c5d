"""Keeps what a prover in training is told in step with its trainer."""

from typing import Any

from transformers import TrainerCallback

from pvg_hf.game.feedback import Feedback


class FeedbackCallback(TrainerCallback):
    """
    Begins where the trainer begins, be that at a checkpoint, and logs every step's counts.

    Args:
        feedback ([`Feedback`]):
            That the trainer asks.
    """

    def __init__(self, feedback: Feedback):
        self.feedback = feedback

    def on_train_begin(self, args, state, control, **kwargs):
        self.feedback.begin(state.global_step)

    def on_log(self, args, state, control, logs: dict[str, Any], **kwargs):
        if "loss" in logs:
            counts = self.feedback.take_counts()
            logs.update(counts)
            state.log_history[-1].update(counts)

    def on_train_end(self, args, state, control, **kwargs):
        self.feedback.close()
