"""GRPO with the package's own sampling loop, and with checks of its settings before training."""

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from functools import cached_property
from typing import Any, ClassVar

import torch
from accelerate.logging import get_logger
from datasets import Dataset
from peft import PeftConfig, PeftModel
from torch import nn
from transformers import PreTrainedModel
from trl import GRPOTrainer, is_conversational

from pvg_hf.core.stopwatch import EVALUATING, WRITING, count_tokens, spending
from pvg_hf.core.templates import render_chat
from pvg_hf.models.prover_model import kept_base
from pvg_hf.models.token_flops import flops_per_token
from pvg_hf.sampling import Sampler
from pvg_hf.sampling.engines import open_sampler
from pvg_hf.trainers.common.distributed import (
    forget_evaluation_mode,
    keep_one_gradient_hook,
    lift_adapter,
    ready_to_sample,
    silence_old_checkpointing_names,
)
from pvg_hf.trainers.common.grpo_config import SampledGRPOConfig, samples_plainly
from pvg_hf.trainers.common.model_card import ModelCardMixin
from pvg_hf.trainers.common.shared_prompts import can_share_prompts, put_groups_together, share_prompts
from pvg_hf.trainers.common.step_checks import LastStepMixin

logger = get_logger(__name__)

TAKEN_COLUMNS = frozenset(
    {
        # Of reward functions.
        *("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric"),
        *("image", "images"),  # which TRL would pass to the model
        "self",
    }
)
"""Columns that a dataset for GRPO cannot have, since TRL passes columns to reward functions by their names."""


class SampledGRPOTrainer(LastStepMixin, ModelCardMixin, GRPOTrainer):
    """
    Base class of the trainers for provers and for score verifiers.

    Class attributes:
        player (`str`):
            Name of the model in messages.

    Args:
        model (`str`, [`~transformers.PreTrainedModel`] or [`~peft.PeftModel`]):
            The player.
        args ([`SampledGRPOConfig`]):
            The trainer's arguments.
        train_dataset ([`~datasets.Dataset`]):
            Dataset with `prompt`.
        kwargs:
            Further arguments of [`~trl.GRPOTrainer`].

    Raises:
        ValueError: for fewer prompts than one generation batch (TRL would return after 0 steps), for a column with a
            name that TRL uses itself, for a model made in memory, since its KL reference cannot be loaded, or for
            chats that the tokenizer's template does not write.
    """

    args: SampledGRPOConfig
    chat_template_kwargs: dict[str, Any]
    max_completion_length: int
    player: ClassVar[str] = "player"
    card_settings = (
        *("learning_rate", "num_train_epochs", "max_steps", "per_device_train_batch_size", "num_generations"),
        *("beta", "temperature", "max_completion_length", "seed"),
    )

    def __init__(
        self,
        model,
        *,
        args: SampledGRPOConfig,
        train_dataset: Dataset,
        eval_dataset: Dataset | dict[str, Dataset] | None = None,
        peft_config: PeftConfig | None = None,
        **kwargs,
    ):
        for dataset in (train_dataset, *datasets_of(eval_dataset)):
            refuse_taken_columns(dataset.column_names)
        self._check_number_of_prompts(train_dataset, args)
        if (mistake := args.find_uneven_saving()) is not None:
            logger.warning(mistake)
        if peft_config is None and args.beta > 0:
            _check_reference(model)
        silence_old_checkpointing_names()
        self._has_reward = torch.empty(0, dtype=torch.bool)  # completions of the current batch, of all processes
        self._logprobs = torch.empty(0)  # of the last forward pass
        self._num_read = 0  # tokens of that pass, without padding; a prompt that solutions share counts once
        super().__init__(
            model, args=args, train_dataset=train_dataset, eval_dataset=eval_dataset, peft_config=peft_config, **kwargs
        )
        lift_adapter(self.model)
        keep_one_gradient_hook(self.model)
        self._check_chats()

    def _check_number_of_prompts(self, dataset: Dataset, args: SampledGRPOConfig) -> None:
        # TRL sets both.
        prompts_per_batch = args.generation_batch_size // args.num_generations  # type: ignore[operator]
        if len(dataset) < prompts_per_batch:
            raise ValueError(
                f"The {self.player}'s dataset has {len(dataset)} prompts, fewer than the {prompts_per_batch} of one "
                "generation batch, so that not a single step would be taken. Add problems or reduce the batch size."
            )

    def _check_chats(self) -> None:
        """Check that the chat template writes the prompts, if they are chats: TRL would train on empty ones."""
        evaluated = self.eval_dataset if isinstance(self.eval_dataset, dict) else {"": self.eval_dataset}
        for dataset in filter(None, (self.train_dataset, *evaluated.values())):
            row = next(iter(dataset))
            if is_conversational(row):
                render_chat(row["prompt"], self.processing_class, self.chat_template_kwargs)

    @property
    def is_sharded(self) -> bool:
        """Whether FSDP or DeepSpeed may have sharded the weights."""
        return self.is_fsdp_enabled or self.is_deepspeed_enabled

    @cached_property
    def sampler(self) -> Sampler | None:
        """Sampler of the completions; `None` if TRL samples them. It is made when the model is on its device."""
        if not samples_plainly(self.args):
            return None
        return open_sampler(
            self.model,
            self.processing_class,
            is_sharded=self.is_sharded,
            leaves_room=True,
            max_new_tokens=self.max_completion_length,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k or 0,
            min_p=self.min_p or 0.0,
            repetition_penalty=self.repetition_penalty,
        )

    def _generate(self, prompts: list):
        with spending(WRITING):
            prompt_ids, completion_ids, *further = super()._generate(prompts)
            count_tokens(sum(map(len, completion_ids)), self._forward_flops)
        return prompt_ids, completion_ids, *further

    @cached_property
    def _forward_flops(self) -> int:
        return flops_per_token(self.model)

    @cached_property
    def _training_flops(self) -> float:
        """Floating-point operations per trained token; the KL reference reads each batch once."""
        reference = self._forward_flops / self.num_iterations if self.beta else 0.0
        return flops_per_token(self.model, is_trained=True) + reference

    @spending(EVALUATING)
    def evaluate(self, *args, **kwargs):
        return super().evaluate(*args, **kwargs)

    def _generate_single_turn(self, prompt_ids, images, multimodal_fields, num_generations, *args, **kwargs):
        if self.sampler is None:
            with kept_base(self.model) if self.use_vllm and not self.is_sharded else nullcontext():
                return super()._generate_single_turn(
                    prompt_ids, images, multimodal_fields, num_generations, *args, **kwargs
                )
        # Drawn from torch's global generator, like TRL's own sampling: the trainer seeds it and saves it in
        # checkpoints.
        uniforms = torch.rand(len(prompt_ids), self.max_completion_length, dtype=torch.float64)
        with ready_to_sample(self):
            return self.sampler.sample_ids(prompt_ids, uniforms)

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        rewards = self._pay(rewards, inputs, completions, completion_ids_list)
        self._has_reward = ~rewards.isnan().all(dim=1)
        return rewards

    def _pay(
        self,
        rewards: torch.Tensor,
        inputs: list[dict[str, Any]],
        completions: list,
        completion_ids_list: list[list[int]],
    ) -> torch.Tensor:
        """
        Return the rewards of a batch, given the results of the reward functions, `(completions of all processes,
        functions)`.

        A row of NaN means no reward; the others are this process's completions and the rows of their prompts.
        """
        return rewards

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        batch = super()._generate_and_score_completions(inputs)
        if not self._has_reward.all():  # of all processes, so that all of them take this branch
            self._leave_out_unpaid(batch)
        return batch

    def _leave_out_unpaid(self, batch: dict[str, Any]) -> None:
        """
        Leave completions without a reward out of the whole loss: TRL only sets their advantage to 0, and would count
        their KL divergence and their tokens.
        """
        mask = batch["completion_mask"]  # (B, T)
        first = self.accelerator.process_index * len(mask)
        is_paid = self._has_reward[first : first + len(mask)].to(mask.device)
        # The mask of tool calls is only for the loss. Without `completion_mask` the model would read other inputs.
        batch["tool_mask"] = batch.get("tool_mask", torch.ones_like(mask)) * is_paid[:, None].to(mask)
        batch["num_items_in_batch"] = self.accelerator.gather((mask * batch["tool_mask"]).sum()).sum()

    def _prepare_inputs(self, generation_batch):
        buffered = self._buffered_inputs
        batch = super()._prepare_inputs(generation_batch)
        if self._buffered_inputs is buffered or not self._shares_prompts:
            return batch
        per_step = self.current_gradient_accumulation_steps
        self._buffered_inputs = put_groups_together(self._buffered_inputs, per_step)
        return self._buffered_inputs[self._step % self.args.steps_per_generation]

    @cached_property
    def _shares_prompts(self) -> bool:
        """Whether the solutions of a group are trained on in one row, with their prompt once."""
        return can_share_prompts(self.model)

    def _get_per_token_logps_and_entropies(
        self, model, input_ids, attention_mask, logits_to_keep, batch_size=None, compute_entropy=False, **kwargs
    ):
        self._num_read = 0
        if self._shares_prompts and all(value is None or value is False for value in kwargs.values()):
            size = batch_size or len(input_ids)
            chunks = zip(input_ids.split(size), attention_mask.split(size), strict=True)
            of_chunks = [self._read_chunk(model, *chunk, logits_to_keep, compute_entropy) for chunk in chunks]
            found = [None if None in parts else torch.cat(parts) for parts in zip(*of_chunks, strict=True)]
        else:  # images, or a mixture of experts
            self._num_read = int(attention_mask.sum())
            found = super()._get_per_token_logps_and_entropies(
                model, input_ids, attention_mask, logits_to_keep, batch_size, compute_entropy, **kwargs
            )
        assert found[0] is not None
        self._logprobs = found[0].detach()
        return found

    def _read_chunk(self, model, input_ids, attention_mask, logits_to_keep, compute_entropy):
        """Read rows at once, those of a prompt in one row; the results are those of TRL's method."""
        shared = share_prompts(input_ids, attention_mask, logits_to_keep)
        if shared is None:
            self._num_read += int(attention_mask.sum())
            return super()._get_per_token_logps_and_entropies(
                model, input_ids, attention_mask, logits_to_keep, compute_entropy=compute_entropy
            )
        self._num_read += shared.num_tokens
        with self.accelerator.autocast():
            outputs = model(**shared.inputs, fused_lm_head=True)
        entropies = shared.of_rows(outputs.entropy) if compute_entropy else None
        return shared.of_rows(outputs.log_probs), entropies, None

    def compute_loss(self, model: nn.Module, inputs: dict[str, Any], *args, **kwargs):
        return super().compute_loss(model, trim_padding(inputs), *args, **kwargs)

    def _compute_loss(self, model: nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
        num_tokens = int(inputs["prompt_mask"].sum() + inputs["completion_mask"].sum())
        loss = super()._compute_loss(model, inputs)
        count_tokens(num_tokens, self._training_flops * self._num_read / num_tokens)
        is_recorded_by_trl = self.use_vllm and self.vllm_importance_sampling_correction
        if "sampling_per_token_logps" in inputs and not is_recorded_by_trl:
            self._record_sampling_difference(inputs)
        return loss

    def _record_sampling_difference(self, batch: dict[str, Any]) -> None:
        """
        Record how far the log-probabilities of sampled tokens differ between sampling and training, under the names
        that TRL uses for vLLM.
        """
        # TRL leaves out the old ones if the loss is that of the weights that sampled.
        trained, mask = batch.get("old_per_token_logps", self._logprobs), batch["completion_mask"]
        difference = (trained - batch["sampling_per_token_logps"]).abs() * mask
        mean, largest = difference.sum() / mask.sum().clamp(min=1), difference.max()
        gather, name = self.accelerator.gather, "sampling/sampling_logp_difference"
        self._record_metrics({f"{name}/mean": gather(mean).mean().item(), f"{name}/max": gather(largest).max().item()})

    def _record_metrics(self, metrics: Mapping[str, float]) -> None:
        """Add values to the means that TRL logs for the current step, or for the evaluation that runs."""
        for key, value in metrics.items():
            self._metrics["train" if self.model.training else "eval"][key].append(value)

    def _are_cut(self, completion_ids_list: list[list[int]]) -> list[bool]:
        """Whether each completion reached the maximum length without an end token."""
        return [ids[-1] not in self.eos_token_ids for ids in completion_ids_list]

    def train(self, *args, **kwargs):
        forget_evaluation_mode(self)
        return super().train(*args, **kwargs)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        # After a resume from the last step nothing was sampled; TRL would replace the file of that step by an empty
        # one.
        writes_completions = self.log_completions
        self.log_completions = writes_completions and len(self._logs["prompt"]) > 0
        super().log(logs, start_time)
        self.log_completions = writes_completions


def trim_padding(batch: Mapping[str, Any]) -> dict[str, Any]:
    """
    Leave out the columns of a micro-batch in which every row is padded.

    TRL pads all micro-batches of a generation batch to its longest prompt and completion. No loss depends on padding.

    Args:
        batch: `prompt_ids` and `prompt_mask`, `(rows, prompt tokens)`, padded on the left; `completion_ids`,
            `completion_mask` and other tensors of `(rows, completion tokens)`, padded on the right.
    """
    prompt, completion = batch["prompt_mask"], batch["completion_mask"]
    start = prompt.shape[1] - _widest(prompt.flip(1))
    width, longest = completion.shape[1], _widest(completion)

    def trim(name: str, value: Any) -> Any:
        if name in ("prompt_ids", "prompt_mask"):
            return value[:, start:]
        is_by_token = isinstance(value, torch.Tensor) and value.dim() == 2 and value.shape[1] == width
        return value[:, :longest] if is_by_token else value

    return {name: trim(name, value) for name, value in batch.items()}


def _widest(mask: torch.Tensor) -> int:
    """Number of columns up to the last one that any row uses, at least 1."""
    used = mask.any(0).nonzero()
    return int(used[-1]) + 1 if len(used) else 1


def datasets_of(evaluation: Dataset | dict[str, Dataset] | None) -> list[Dataset]:
    """Return the datasets of a trainer's `eval_dataset`."""
    return [*evaluation.values()] if isinstance(evaluation, dict) else [*filter(None, [evaluation])]


def refuse_taken_columns(columns: Iterable[str], taken: Iterable[str] = TAKEN_COLUMNS) -> None:
    """Refuse columns whose names the trainer uses itself."""
    found = sorted(set(columns) & set(taken))
    if found:
        raise ValueError(
            f"The columns {found} have names that the trainer uses itself; rename them or leave them out."
        )


def completion_text(completion: str | list[Mapping[str, Any]]) -> str:
    """Return the text of a completion, conversational or not."""
    return completion if isinstance(completion, str) else completion[-1]["content"]


def _check_reference(model: str | PreTrainedModel | PeftModel) -> None:
    """Check that TRL can load the KL reference of a fully fine-tuned model, which it loads from the model's source."""
    if isinstance(model, PreTrainedModel) and not model.config._name_or_path:
        raise ValueError(
            "The model was made in memory, but the reference of its KL divergence is loaded from a path. Save the"
            " model and load it from there, train adapters (`peft_config`), or set `beta=0`."
        )
