"""Support for several processes and different machines, in addition to what transformers' Trainer does."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from peft import PeftModel
from torch.distributed.fsdp import FSDPModule
from transformers import PreTrainedModel, Trainer, TrainingArguments
from trl.models import unwrap_model_for_generation

from pvg_hf.models.hardware import ignore_accelerate_variable
from pvg_hf.models.prover_model import merged_adapter
from pvg_hf.models.sources import has_bfloat16


def forget_evaluation_mode(trainer: Trainer) -> None:
    """
    Let `trainer.train()` distribute its model even if `trainer.evaluate()` ran before it.

    An evaluation marks the model as prepared without wrapping it for training, and accelerate never prepares a model
    twice: every process would silently train a separate model. Call this before training; a wrapped model is left
    unchanged.

    Args:
        trainer: A trainer on one process or with data parallelism. DeepSpeed and FSDP also wrap models for evaluation.
    """
    accelerator = trainer.accelerator
    model: Any = trainer.model
    wrapped: Any = trainer.model_wrapped
    if accelerator.num_processes == 1 or trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled:
        return
    if wrapped is model and model in accelerator._models:
        accelerator._models.remove(model)
        model._is_accelerate_prepared = False


@contextmanager
def ready_to_sample(trainer: Trainer) -> Iterator[None]:
    """
    Make all weights of a trainer's model available on every process, so that each can generate independently. An
    adapter is merged meanwhile where that changes nothing but the time
    ([`~pvg_hf.models.prover_model.merged_adapter`]).

    The processes may then take different numbers of forward passes. Sharded weights (FSDP2, ZeRO-3) are gathered once
    and released at the end; without sharding nothing happens. Every process must enter.

    Args:
        trainer: A trainer during training, so that its model is already sharded.
    """
    if trainer.is_deepspeed_enabled:
        with unwrap_model_for_generation(trainer.model_wrapped, trainer.accelerator):
            yield
        return
    model: Any = trainer.model
    shards = [module for module in model.modules() if isinstance(module, FSDPModule)]
    if not shards:
        # accelerate's own autocast is around the forward pass of the adapted model, which `generate` does not call.
        with trainer.accelerator.autocast(), merged_adapter(model):
            yield
        return
    for shard in shards:
        shard.set_reshard_after_forward(False, recurse=False)
        shard.unshard()
    try:
        yield
    finally:
        for shard in shards:
            shard.set_reshard_after_forward(shard is not model, recurse=False)  # torch's own default
            shard.reshard()


def turn_off_gpu_defaults(args: TrainingArguments) -> None:
    """
    Set `bf16` and activation checkpointing, if unset, to whether a GPU is used.

    Call this before the arguments' own `__post_init__`, in a class with `None` as the default of
    `gradient_checkpointing`.
    """
    ignore_accelerate_variable("ACCELERATE_MIXED_PRECISION")  # `bf16` and `fp16` say it
    has_gpu = torch.cuda.is_available() and not args.use_cpu
    if args.bf16 is None:
        args.bf16 = has_gpu and has_bfloat16() and not args.fp16
    # TRL still uses `gradient_checkpointing`. transformers 5 copies it from `activation_checkpointing`, and warns if
    # only the old name is set.
    if args.activation_checkpointing is None:
        is_set = args.gradient_checkpointing is not None
        args.activation_checkpointing = args.gradient_checkpointing if is_set else has_gpu


def lift_adapter(model: PreTrainedModel | PeftModel) -> None:
    """
    Convert trained weights next to a frozen base to float32, whatever the type of the base.

    TRL holds the adapters of a quantised model in bfloat16. It keeps 8 significant bits, so that most updates would be
    rounded away at small learning rates.
    """
    if not isinstance(model, PeftModel):
        return
    for parameter in model.parameters():
        if parameter.requires_grad and parameter.dtype.itemsize < torch.float32.itemsize:
            parameter.data = parameter.data.float()


def keep_one_gradient_hook(model: PreTrainedModel | PeftModel) -> None:
    """
    Let a model with activation checkpointing have one hook on its embeddings, however often it is switched on.

    TRL switches it off and on at every step, and transformers adds a hook each time, for which a compiled forward pass
    would be compiled again.
    """
    inner: Any = model.get_base_model() if isinstance(model, PeftModel) else model
    inner.enable_input_require_grads = partial(_replace_gradient_hook, inner)


def _replace_gradient_hook(model: PreTrainedModel) -> None:
    model.disable_input_require_grads()
    type(model).enable_input_require_grads(model)


def silence_old_checkpointing_names() -> None:
    """Silence warnings at every step: TRL 1.16 uses transformers' old names of activation checkpointing."""
    warnings.filterwarnings(
        "ignore", message=r"`(is_)?gradient_checkpointing\w*` is deprecated", category=FutureWarning
    )
