"""Ends a training that has left the finite numbers."""

import math
from collections.abc import Mapping
from typing import Any

from transformers import TrainerCallback


class FiniteLossCallback(TrainerCallback):
    """
    Ends a training whose loss or gradient is not finite, before anything is saved from it. The trainer must log every
    step with `logging_nan_inf_filter=False`: that filter, on by default, shows a finite loss in place of NaN.

    Raises:
        FloatingPointError: when such a step is logged.
    """

    def on_log(self, args, state, control, logs: Mapping[str, Any] | None = None, **kwargs):
        names = {"loss": "loss"} if args.fp16 else {"loss": "loss", "grad_norm": "gradient's norm"}
        for key, name in names.items():  # in float16 a step of infinite gradients is left out and the scale lowered
            value = (logs or {}).get(key, 0.0)
            if not math.isfinite(value):
                raise FloatingPointError(
                    f"The {name} of step {state.global_step} is {value}. Lower `learning_rate` or `max_grad_norm`, or "
                    "compute in float32."
                )
