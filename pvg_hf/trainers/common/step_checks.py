"""Checks of a training's steps: none after the last one, and none with a loss that is not finite."""

import math
from collections.abc import Mapping
from typing import Any

from transformers import Trainer, TrainerCallback


class LastStepMixin(Trainer):
    """
    Trains on no further batch once all steps are taken.

    When transformers' Trainer resumes from a checkpoint of the last step in the middle of an epoch, it takes another
    step before it compares the number of steps.
    """

    def get_batch_samples(self, epoch_iterator, num_batches, device):
        if self.state.global_step >= self.state.max_steps:
            return [], None
        return super().get_batch_samples(epoch_iterator, num_batches, device)


class FiniteLossCallback(TrainerCallback):
    """
    Ends a training with a loss or gradient that is not finite, before anything is saved.

    The trainer must log every step with `logging_nan_inf_filter=False`: that filter, which is on by default, replaces
    NaN by a finite loss.

    Raises `FloatingPointError` when such a step is logged.
    """

    def on_log(self, args, state, control, logs: Mapping[str, Any] | None = None, **kwargs):
        names = {"loss": "loss"} if args.fp16 else {"loss": "loss", "grad_norm": "gradient's norm"}
        for key, name in names.items():  # in float16, a step with infinite gradients is skipped and the scale lowered
            value = (logs or {}).get(key, 0.0)
            if not math.isfinite(value):
                raise FloatingPointError(
                    f"The {name} of step {state.global_step} is {value}. Lower `learning_rate` or `max_grad_norm`, or "
                    "compute in float32."
                )
