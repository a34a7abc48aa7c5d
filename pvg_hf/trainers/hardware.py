"""TRL's defaults for GPUs, resolved for the machine at hand."""

import torch
from transformers import TrainingArguments


def turn_off_gpu_defaults(args: TrainingArguments) -> None:
    """Leave `bf16` and `gradient_checkpointing` off where they were not set and no GPU is used; on with a GPU."""
    has_gpu = torch.cuda.is_available() and not args.use_cpu
    if args.bf16 is None:
        args.bf16 = has_gpu and torch.cuda.is_bf16_supported() and not args.fp16
    if args.gradient_checkpointing is None:
        args.gradient_checkpointing = has_gpu
