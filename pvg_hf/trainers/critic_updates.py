"""What the Trainer does for the policy's gradients at each step, for the critic's."""

from collections.abc import Callable

import torch
from torch.nn.utils import clip_grad_norm_
from transformers import TrainerCallback

from pvg_hf.trainers.critic import Critic


class CriticUpdates(TrainerCallback):
    """
    Scales the critic's gradients down by themselves, so that neither player's norm decides about the other's step, and
    clears them afterwards.

    Args:
        critic ([`Critic`]):
            Whose weights the Trainer's optimizer steps.
        record (`Callable`):
            Is told the norm of every step that has gradients.
    """

    def __init__(self, critic: Critic, record: Callable[[float], None]):
        self.critic = critic
        self.record = record

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        weights = [weight for weight in self.critic.trained_parameters.values() if weight.grad is not None]
        if weights:  # not in a step that is left out
            norm = clip_grad_norm_(weights, args.max_grad_norm or torch.inf)
            self.record(norm.item())

    def on_optimizer_step(self, args, state, control, **kwargs):
        self.critic.model.zero_grad()
