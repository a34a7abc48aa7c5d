"""What several processes and different machines need beyond what a trainer does for them."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from peft import PeftModel
from torch.distributed.fsdp import FSDPModule
from transformers import PreTrainedModel, Trainer, TrainingArguments
from trl.models import unwrap_model_for_generation

from pvg_hf.models.sources import has_bfloat16


def forget_evaluation_mode(trainer: Trainer) -> None:
    """
    Let `trainer.train()` distribute its model although `trainer.evaluate()` ran before it. An evaluation marks the
    model as prepared without wrapping it for training, and accelerate wraps no model twice: every process would then
    train a model of its own, without a word. To be called before training; a model that is wrapped stays as it is.

    Args:
        trainer ([`~transformers.Trainer`]):
            Under plain data parallelism, or on one process; DeepSpeed and FSDP wrap in evaluation as well.
    """
    accelerator, model = trainer.accelerator, trainer.model
    if accelerator.num_processes == 1 or trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled:
        return
    if trainer.model_wrapped is model and model in accelerator._models:
        accelerator._models.remove(model)
        model._is_accelerate_prepared = False


@contextmanager
def whole_weights(trainer: Trainer) -> Iterator[None]:
    """
    All weights of a trainer's model on every process, so that each generates by itself, in as many forward passes as its
    own solutions take. Sharded weights (FSDP2, ZeRO-3) are gathered once and let go of at the end; without sharding
    nothing happens. Every process must enter.

    Args:
        trainer ([`~transformers.Trainer`]):
            In training, so that its model is sharded where it is to be.
    """
    if trainer.is_deepspeed_enabled:
        with unwrap_model_for_generation(trainer.model_wrapped, trainer.accelerator):
            yield
        return
    shards = [module for module in trainer.model.modules() if isinstance(module, FSDPModule)]
    for shard in shards:
        shard.set_reshard_after_forward(False, recurse=False)
        shard.unshard()
    try:
        yield
    finally:
        for shard in shards:
            shard.set_reshard_after_forward(shard is not trainer.model, recurse=False)  # torch's own default
            shard.reshard()


def turn_off_gpu_defaults(args: TrainingArguments) -> None:
    """
    Leave `bf16` and activation checkpointing off where they were not set and no GPU is used; on with a GPU. To be called
    before the arguments' own `__post_init__`, by a class whose default of `gradient_checkpointing` is `None`.
    """
    has_gpu = torch.cuda.is_available() and not args.use_cpu
    if args.bf16 is None:
        args.bf16 = has_gpu and has_bfloat16() and not args.fp16
    # TRL still says `gradient_checkpointing`, which transformers 5 mirrors from `activation_checkpointing` and warns of
    # where only the old name is set.
    if args.activation_checkpointing is None:
        is_set = args.gradient_checkpointing is not None
        args.activation_checkpointing = args.gradient_checkpointing if is_set else has_gpu


def lift_adapter(model: PreTrainedModel | PeftModel) -> None:
    """
    What is trained beside a frozen base in float32, whatever the base is held in: TRL holds the adapters of a quantised
    model in bfloat16, which keeps 8 bits of a number, so that at small learning rates most updates would be rounded away.
    """
    if not isinstance(model, PeftModel):
        return
    for parameter in model.parameters():
        if parameter.requires_grad and parameter.dtype.itemsize < torch.float32.itemsize:
            parameter.data = parameter.data.float()


def silence_old_checkpointing_names() -> None:
    """TRL 1.16 calls models by transformers' old names of activation checkpointing, which warn at every step."""
    warnings.filterwarnings(
        "ignore", message=r"`(is_)?gradient_checkpointing\w*` is deprecated", category=FutureWarning
    )
