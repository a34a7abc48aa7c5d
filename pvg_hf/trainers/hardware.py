"""What TRL sets for GPUs, resolved for the machine at hand."""

import warnings

import torch
from peft import PeftModel
from transformers import PreTrainedModel, TrainingArguments

from pvg_hf.models.sources import has_bfloat16


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
