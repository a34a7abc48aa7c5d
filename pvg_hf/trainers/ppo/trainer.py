"""A PPO trainer for role-conditioned provers: GRPO's sampling and loss, with a critic and token-level advantages."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from torch import nn
from torch.nn.utils import clip_grad_norm_
from transformers import PreTrainedModel, TrainerCallback

from pvg_hf.trainers.ppo.advantages import (
    clipped_value_loss,
    explained_variance,
    generalized_advantages,
    kl_estimate,
    masked_mean,
    token_rewards,
    whiten,
)
from pvg_hf.trainers.ppo.config import ProverPPOConfig
from pvg_hf.trainers.ppo.critic import Critic, make_value_model
from pvg_hf.trainers.prover.trainer import ProverGRPOTrainer


class BatchEpochs:
    """
    Ends the epochs over a batch once the policy has moved too far from the one that wrote it.

    Args:
        target_kl: Maximum KL divergence per token; `None` never ends the epochs early.
    """

    def __init__(self, target_kl: float | None):
        self.target_kl = target_kl
        self.is_over = False
        self._of_step: list[float] = []

    def begin_batch(self) -> None:
        """Reset for a new batch, which the current policy has written."""
        self.is_over, self._of_step = False, []

    def begin_step(self) -> None:
        """Begin an optimiser step on the same batch; the last step's divergence decides, equally on all processes."""
        if self.target_kl is not None and self._of_step:
            self.is_over = self.is_over or sum(self._of_step) / len(self._of_step) > self.target_kl
        self._of_step = []

    def note(self, kl: float) -> None:
        """Record the divergence on a micro-batch of the step, over all processes."""
        self._of_step.append(kl)


class CriticUpdates(TrainerCallback):
    """
    Clips the critic's gradients separately, so that neither player's norm affects the other's step, and clears them
    after the step.
    """

    def __init__(self, critic: Critic, record: Callable[[dict[str, float]], None]):
        self.critic = critic
        self.record = record

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        weights = [weight for weight in self.critic.trained_parameters.values() if weight.grad is not None]
        if weights:  # there are none in a skipped step
            norm = clip_grad_norm_(weights, args.max_grad_norm or torch.inf)
            self.record({"critic/grad_norm": norm.item()})

    def on_optimizer_step(self, args, state, control, **kwargs):
        self.critic.model.zero_grad()


Batch = dict[str, Any]


class ProverPPOTrainer(ProverGRPOTrainer):
    """
    Trains a prover like [`ProverGRPOTrainer`], but with a critic instead of the group's mean.

    The last token of a solution gets the role reward, and each token gets `-beta` times the KL divergence from the
    reference. The advantage of a token is its generalised advantage estimate. Groups are still what relative rewards
    such as `src` refer to.

    Args:
        model (`str`, [`~transformers.PreTrainedModel`] or [`~peft.PeftModel`]):
            The prover.
        critic (`str`, [`~transformers.PreTrainedModel`] or [`~peft.PeftModel`], *optional*):
            Model that estimates the value of each state. `"adapter"`: an adapter like the prover's, with a head, on
            the prover's frozen base, whose weights are in memory only once. `"verifier"`: a copy of the body of the
            scorer's model, fully fine-tuned; requires a [`VerifierScorer`]. A Hub id or folder: that model, fully
            fine-tuned; one that this trainer has saved keeps its head. A token classifier with one logit: used
            directly. By default `"adapter"` for a prover with adapters, and a copy of the prover's body for a fully
            fine-tuned one.
        args ([`ProverPPOConfig`]):
            The trainer's arguments.
        kwargs:
            Further arguments of [`ProverGRPOTrainer`].

    Raises:
        ValueError: as for [`ProverGRPOTrainer`]; if the critic cannot be made; or for sharded weights.

    Example:

    ```python
    trainer = ProverPPOTrainer(
        "path/or/hub-id",
        critic="verifier",
        scorer=VerifierScorer.from_pretrained("runs/quickstart/verifier/round-000"),
        grader=task.grade,
        args=ProverPPOConfig("out", max_steps=200),
        train_dataset=Dataset.from_list(rows),
    )
    trainer.train()
    ```
    """

    args: ProverPPOConfig
    _name = "ProverPPO"

    def __init__(
        self, model, *, args: ProverPPOConfig, critic: str | PreTrainedModel | PeftModel | None = None, **kwargs
    ):
        if kwargs.get("optimizers", (None, None)) != (None, None):
            raise ValueError(
                "`optimizers` cannot be passed, since they would not update the critic; choose an optimiser by"
                " `args.optim`."
            )
        super().__init__(model, args=args, **kwargs)
        if self.is_fsdp_enabled or self.is_deepspeed_enabled:
            raise ValueError(
                "PPO's critic cannot be sharded (FSDP, DeepSpeed) yet; use plain data parallelism, or GRPO."
            )
        self.critic = self._make_critic(critic)
        self.add_callback(CriticUpdates(self.critic, self._record_metrics))
        self._rewards = torch.empty(0)  # of the current batch, over all processes
        self._epochs = BatchEpochs(args.target_kl)

    def _make_critic(self, critic: str | PreTrainedModel | PeftModel | None) -> Critic:
        model = make_value_model(
            critic, prover=self.model, tokenizer=self.processing_class, scorer=self.scorer, seed=self.args.seed
        ).to(self.accelerator.device)
        recomputes = bool(self.args.activation_checkpointing)
        if recomputes:
            model.activation_checkpointing_enable()
        model.train(recomputes)  # only active in training mode; dropout is off in any case
        return Critic(model, self.accelerator.prepare_model(model))

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)  # gathered, (N, funcs)
        weighted = (rewards * self.reward_weights.to(rewards.device)).nansum(dim=1)
        self._rewards = weighted.masked_fill(rewards.isnan().all(dim=1), torch.nan)  # NaN: the solution has no reward
        return rewards

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> Batch:
        batch = super()._generate_and_score_completions(inputs)
        # This process's rows among the gathered ones.
        first = self.accelerator.process_index * len(inputs)
        rewards = self._rewards[first : first + len(inputs)].to(self.accelerator.device)
        if "old_per_token_logps" not in batch:
            batch["old_per_token_logps"] = self._judge_policy(batch)
        batch |= self._judge(batch, rewards)
        self._replace_logged_advantages(batch)
        return batch

    def _judge(self, batch: Batch, rewards: torch.Tensor) -> Batch:
        """Compute the critic's part of a batch, as tensors of shape (B, T)."""
        mask = _solution_mask(batch) & ~rewards.isnan()[:, None]
        old = batch["old_per_token_logps"]
        # Without a reference (beta = 0) the divergence is 0.
        kl = old - batch.get("ref_per_token_logps", old)
        paid = token_rewards(rewards, kl, mask, kl_coef=self.beta)
        values = self.critic.judge(batch, self._rows_at_once).masked_fill(~mask, 0.0)
        advantages = generalized_advantages(paid, values, mask, gamma=self.args.gamma, gae_lambda=self.args.gae_lambda)
        returns = advantages + values
        self._record_value("explained_variance", explained_variance(values, returns, mask, self._total))
        self._record_value("critic/value", masked_mean(values, mask, self._total))
        self._record_value("critic/return", masked_mean(returns, mask, self._total))
        if self.args.whiten_advantages:
            advantages = whiten(advantages, mask, self._total)
        return {"advantages": advantages, "values": values, "returns": returns, "value_mask": mask}

    @property
    def _rows_at_once(self) -> int:
        args = self.args
        return args.per_device_train_batch_size if self.model.training else args.per_device_eval_batch_size

    @torch.no_grad()
    def _judge_policy(self, batch: Batch) -> torch.Tensor:
        """
        Compute the log-probabilities under the policy that wrote the batch, which TRL omits if a batch is used once.
        """
        ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
        mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
        num_tokens = batch["completion_ids"].shape[1]
        return self._get_per_token_logps_and_entropies(
            self.model, ids, mask, num_tokens, batch_size=self._rows_at_once
        )[0]

    def _replace_logged_advantages(self, batch: Batch) -> None:
        """Replace GRPO's advantage in the table of solutions by the mean over the solution's tokens."""
        mask = _solution_mask(batch)
        means = (batch["advantages"] * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
        logged: Any = self._logs["advantages"]
        newest = self.accelerator.gather(means).tolist()
        for _ in range(min(len(newest), len(logged))):
            logged.pop()
        logged.extend(newest)

    def training_step(self, model: nn.Module, inputs: Any, num_items_in_batch: torch.Tensor | int | None = None):
        if self._step % (self.args.micro_batches_per_batch * self.num_iterations) == 0:  # a new batch is generated
            self._epochs.begin_batch()
        elif self._step % self.args.gradient_accumulation_steps == 0:
            self._epochs.begin_step()
        if not self._epochs.is_over:
            return super().training_step(model, inputs, num_items_in_batch)
        self._step += 1
        self._record_metrics({"left_out": 1.0})
        return torch.zeros((), device=self.args.device)  # a skipped step: without gradients, neither player changes

    def _compute_loss(self, model: nn.Module, inputs: Batch) -> torch.Tensor:
        with self._kl_disabled():  # since the KL divergence is in the rewards already
            policy_loss = super()._compute_loss(model, inputs)
        self._record_kl(inputs)
        value_loss = self._value_loss(inputs)
        self._record_share("loss/policy", policy_loss)
        self._record_share("loss/value", value_loss)
        return policy_loss + self.args.vf_coef * value_loss

    @contextmanager
    def _kl_disabled(self) -> Iterator[None]:
        beta, self.beta = self.beta, 0.0
        try:
            yield
        finally:
            self.beta = beta

    def _value_loss(self, inputs: Batch) -> torch.Tensor:
        """
        Compute this micro-batch's part of the value loss, a mean over the tokens of an optimiser step on all
        processes.
        """
        accelerator, mask = self.accelerator, inputs["value_mask"]
        with nullcontext() if accelerator.sync_gradients else accelerator.no_sync(self.critic.forward):
            values = self.critic.values(inputs)
        losses = clipped_value_loss(values, inputs["values"], inputs["returns"], clip_range=self.args.cliprange_value)
        if self.args.cliprange_value is not None:
            is_held = (values - inputs["values"]).abs() > self.args.cliprange_value
            self._record_value("critic/clip_ratio", masked_mean(is_held, mask, self._total))
        return losses[mask].sum() / self._tokens_per_step(inputs)

    def _tokens_per_step(self, inputs: Batch) -> torch.Tensor:
        """
        Completion tokens per optimiser step and process (the normaliser of TRL's `dapo`); an evaluation batch is a
        step.
        """
        of_batch = inputs["num_items_in_batch"].clamp(min=1.0) / self.accelerator.num_processes
        return of_batch / self._parts_of_batch

    @property
    def _parts_of_batch(self) -> float:
        if not self.model.training:
            return 1.0
        return self.args.micro_batches_per_batch / self.current_gradient_accumulation_steps

    def _record_kl(self, inputs: Batch) -> None:
        """
        Record the KL divergence per token of the current policy from the one that wrote the batch and from the
        reference.
        """
        mask = _solution_mask(inputs)
        moved = self._logprobs - inputs["old_per_token_logps"]
        from_old = self._record_value("approx_kl", masked_mean(kl_estimate(moved), mask, self._total))
        if self.model.training:
            self._epochs.note(from_old)
        if "ref_per_token_logps" in inputs:
            from_reference = kl_estimate(inputs["ref_per_token_logps"] - self._logprobs)
            self._record_value("kl", masked_mean(from_reference, mask, self._total))

    def _record_share(self, name: str, loss: torch.Tensor) -> None:
        """Record a micro-batch's part of a step's loss, scaled up because the log averages over micro-batches."""
        parts = self.current_gradient_accumulation_steps if self.model.training else 1
        total = self._total(loss.detach().reshape(1)) / self.accelerator.num_processes
        self._record_value(name, parts * total)

    def _record_value(self, name: str, value: torch.Tensor) -> float:
        self._record_metrics({name: value.item()})
        return value.item()

    def _total(self, tensor: torch.Tensor) -> torch.Tensor:
        return self.accelerator.reduce(tensor, reduction="sum")

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        is_new = self.optimizer is None
        optimizer = super().create_optimizer(model)
        if is_new:
            decayed = set(self.get_decay_parameter_names(self.critic.model))
            rate = self.args.critic_learning_rate or self.args.learning_rate
            for is_decayed in (True, False):
                weights = [w for name, w in self.critic.trained_parameters.items() if (name in decayed) == is_decayed]
                decay = self.args.weight_decay if is_decayed else 0.0
                if weights:
                    optimizer.add_param_group({"params": weights, "lr": rate, "weight_decay": decay})
        return optimizer

    def _save(self, output_dir: str | None = None, state_dict: dict | None = None) -> None:
        super()._save(output_dir, state_dict)
        if self.args.should_save:
            self.critic.save(self._folder(output_dir), self.processing_class)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        super()._load_from_checkpoint(resume_from_checkpoint, model)
        self.critic.load(Path(resume_from_checkpoint))

    def _load_best_model(self) -> None:
        super()._load_best_model()
        assert self.state.best_model_checkpoint is not None  # it has just been loaded
        self.critic.load(Path(self.state.best_model_checkpoint))


def _solution_mask(batch: Batch) -> torch.Tensor:
    """Return the tokens that the prover wrote, as booleans of shape (B, T)."""
    mask = batch["completion_mask"].bool()
    return mask & batch["tool_mask"].bool() if "tool_mask" in batch else mask
