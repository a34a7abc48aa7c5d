"""Arguments of GRPO whose completions are drawn by the project's own loop."""

from dataclasses import dataclass, field
from math import ceil

from transformers.trainer_utils import SaveStrategy
from trl import GRPOConfig

from pvg_hf.trainers.hardware import turn_off_gpu_defaults
from pvg_hf.trainers.prover_generation import choose_engine


@dataclass
class SampledGRPOConfig(GRPOConfig):
    """
    Arguments of [`SampledGRPOTrainer`]: those of [`~trl.GRPOConfig`], and the following. Every step is logged by default.
    On a machine without a GPU, `bf16` and `gradient_checkpointing` are off.

    Args:
        generation (`str`, defaults to `"transformers"`):
            What writes the completions: `"transformers"`, the loop of [`~pvg_hf.sampling.Sampler`], or TRL's call of
            `generate` where the settings ask for more than a temperature (`top_p`, `generation_kwargs`, ...) or the
            weights are sharded; `"continuous"`, transformers' continuous batching; `"vllm_colocate"` or `"vllm_server"`.
            It sets TRL's own switches, and follows them where they are set.

    Raises:
        ValueError: for an unknown engine, or switches of TRL's that contradict it.
    """

    logging_steps: float = field(default=1, metadata={"help": "Log every so many steps."})
    gradient_checkpointing: bool | None = field(
        default=None, metadata={"help": "Recompute activations; on with a GPU, off without."}
    )
    generation: str = field(
        default="transformers",
        metadata={"help": "`transformers`, `continuous`, `vllm_colocate` or `vllm_server` writes the completions."},
    )

    def __post_init__(self):
        turn_off_gpu_defaults(self)
        self.generation = choose_engine(self, self.generation)
        super().__post_init__()

    @property
    def steps_per_batch(self) -> int:
        """Optimiser steps that are taken on one batch of completions."""
        return max(1, self.steps_per_generation * self.num_iterations // self.gradient_accumulation_steps)

    def find_uneven_saving(self) -> str | None:
        """
        What is wrong with `save_steps`, if anything: a checkpoint within a batch of completions does not hold the batch, so
        that training which goes on from there draws another one.
        """
        save_steps = self.save_steps
        if save_steps < 1:  # a share of all steps, as far as their number is known
            save_steps = ceil(save_steps * max(0, self.max_steps))
        if self.save_strategy != SaveStrategy.STEPS or save_steps % self.steps_per_batch == 0:
            return None
        return (
            f"`save_steps` is {save_steps}, and a generated batch is trained on for {self.steps_per_batch} steps: take a "
            "multiple of them, or a run that goes on from a checkpoint differs from one that was not stopped."
        )
