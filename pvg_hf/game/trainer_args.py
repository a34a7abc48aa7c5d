"""From a player's section of the recipe to the arguments of a trainer."""

from pathlib import Path
from typing import Any

import torch

from pvg_hf.config.sections import PlayerConfig
from pvg_hf.game.console import shows_progress
from pvg_hf.game.context import PhaseContext

MAX_SEED = 2**31  # transformers seeds NumPy's old generator, which takes 32 bits


def trainer_arguments(context: PhaseContext, config: PlayerConfig, output: Path, *path: object) -> dict[str, Any]:
    """
    What both trainers share; the recipe's `trainer` fields go last and win.

    Args:
        context ([`PhaseContext`]):
            The phase.
        config ([`PlayerConfig`]):
            The player.
        output (`Path`):
            Where checkpoints are kept.
        *path (`object`):
            Names that tell this trainer's seed from others of the phase.
    """
    on_gpu = context.processes.device.type == "cuda"
    return {
        "output_dir": str(output),
        "seed": context.seed("trainer", *path) % MAX_SEED,
        "max_steps": config.max_steps,
        "learning_rate": config.learning_rate,
        "lr_scheduler_type": config.lr_scheduler_type,
        "warmup_steps": config.warmup_steps,
        "weight_decay": config.weight_decay,
        "max_grad_norm": config.max_grad_norm,
        "gradient_accumulation_steps": config.gradient_accumulation_steps,
        "gradient_checkpointing": config.gradient_checkpointing,
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "save_strategy": "steps" if config.save_steps else "no",
        "save_steps": config.save_steps or config.max_steps,
        "save_total_limit": 2,
        "save_only_model": False,
        "use_cpu": not on_gpu,
        "bf16": on_gpu and torch.cuda.is_bf16_supported(),
        "dataloader_pin_memory": on_gpu,
        "report_to": "none",
        "disable_tqdm": not shows_progress(context.recipe),
        **config.trainer,
    }
