"""Invariance across environments in the training of a verifier; without `invariance`, it does nothing."""

from typing import Any

import torch
from trl import RewardTrainer

from pvg_hf.trainers.reward.columns import PairCollator
from pvg_hf.trainers.reward.config import NoisyRewardConfig
from pvg_hf.trainers.reward.invariance import (
    BalancedSampler,
    EnvironmentBatch,
    Invariance,
    ResetMomentsCallback,
    check_batch,
)
from pvg_hf.trainers.reward.loss import centring, order_by_label


class InvarianceMixin(RewardTrainer):
    """
    The part of [`~pvg_hf.trainers.reward.trainer.NoisyRewardTrainer`] about invariance.

    Attributes:
        invariance: The objective over the environments; `None` if no invariance is requested.
    """

    args: NoisyRewardConfig
    train_dataset: Any  # no stream with invariance, see `check_environments`
    invariance: Invariance | None

    @property
    def _step_size(self) -> int:
        """Number of pairs in a step over all processes."""
        return self.args.train_batch_size * self.args.world_size * self.args.gradient_accumulation_steps

    def _set_up_environments(self) -> None:
        args, column = self.args, self.args.environment_column
        names = sorted(self.train_dataset.unique(column)) if args.invariance != "none" else []
        self.invariance = Invariance.of(args, names)
        numbers = {name: number for number, name in enumerate(names)}
        self.data_collator = PairCollator(self.data_collator, column if self.invariance else None, numbers)
        if self.invariance is None:
            return
        is_balanced = args.invariance_method.is_balanced
        check_batch(len(names), self._step_size, is_balanced=is_balanced, crowded=args.crowded_environments)
        if self.invariance.regulariser is not None:
            self.add_callback(ResetMomentsCallback(args))

    def _get_train_sampler(self, train_dataset=None):
        if self.invariance is None or not self.args.invariance_method.is_balanced:
            return super()._get_train_sampler(train_dataset)
        environments = self.train_dataset[self.args.environment_column][:]
        return BalancedSampler(environments, self._step_size, seed=self.args.seed)

    def _invariant_loss(
        self, chosen: torch.Tensor, rejected: torch.Tensor, labels: torch.Tensor | None, environments: torch.Tensor
    ) -> torch.Tensor:
        """Compute the loss over environments; its metrics are also logged if batches are only balanced."""
        assert self.invariance is not None
        # Ties have weight 0 and are left out of the risks.
        preferred, other, weights = order_by_label(chosen, rejected, labels)
        batch = EnvironmentBatch.gather(self.accelerator, preferred - other, environments, weights)
        loss, figures = self.invariance.objective(
            batch,
            centring(chosen, rejected, self.args),
            is_on=self.state.global_step >= self.args.penalty_start(self.state.max_steps),
            num_processes=self.accelerator.num_processes,
        )
        for key, value in figures.items():
            self._metrics["train"][key].append(value)
        return loss
