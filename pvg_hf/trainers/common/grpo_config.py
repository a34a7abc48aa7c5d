"""Arguments of the GRPO trainers that sample with the package's own loop."""

from dataclasses import dataclass, field
from math import ceil

from transformers.trainer_utils import SaveStrategy
from trl import GRPOConfig

from pvg_hf.config.fields import check_option
from pvg_hf.config.player_sections import ProverConfig
from pvg_hf.trainers.common.distributed import turn_off_gpu_defaults
from pvg_hf.trainers.common.options import option


def choose_engine(args: GRPOConfig, generation: str) -> str:
    """
    Set TRL's switches for a generation engine, or derive the engine from switches that are set.

    Raises `ValueError` for an unknown engine, or TRL switches that contradict it.
    """
    check_option(ProverConfig, "generation", generation)
    switched = _switched_on(args)
    if generation in ("auto", "transformers"):
        return switched or "transformers"
    if switched not in (None, generation):
        raise ValueError(
            f"`generation` is `{generation}`, but TRL's own switches (`use_vllm`, `vllm_mode`, "
            f"`use_transformers_continuous_batching`) select `{switched}`. Leave them unset."
        )
    args.use_transformers_continuous_batching = generation == "continuous"
    args.use_vllm = generation.startswith("vllm_")
    if args.use_vllm:
        args.vllm_mode = generation.removeprefix("vllm_")
    return generation


def samples_plainly(args: "SampledGRPOConfig") -> bool:
    """
    Whether solutions can be sampled by [`~pvg_hf.sampling.Sampler`].

    It supports a temperature and TRL's settings of the distribution, and no other argument of `generate`.
    """
    has_more = args.generation_kwargs or args.cache_implementation
    return args.generation == "transformers" and args.temperature > 0 and not has_more


def _switched_on(args: GRPOConfig) -> str | None:
    if args.use_vllm:
        return f"vllm_{args.vllm_mode}"
    return "continuous" if args.use_transformers_continuous_batching else None


@dataclass
class SampledGRPOConfig(GRPOConfig):
    """
    Arguments of [`SampledGRPOTrainer`]: those of [`~trl.GRPOConfig`], and the following.

    Every step is logged by default. On a machine without a GPU, `bf16` and `gradient_checkpointing` are off.

    Args:
        generation: Engine that generates completions: `"auto"` and `"transformers"`, on a GPU a compiled `generate`
            with a static cache ([`~pvg_hf.sampling.static_sampler.StaticSampler`]) and else the loop of
            [`~pvg_hf.sampling.Sampler`], or TRL's call of `generate` with `generation_kwargs` or
            `cache_implementation`; `"continuous"`, transformers' continuous batching; `"vllm_colocate"` or
            `"vllm_server"`. It sets TRL's switches, or follows them if they are set.
    Raises `ValueError` for an unknown engine, or TRL switches that contradict it.
    """

    logging_steps: float = field(default=1, metadata={"help": "Steps between two lines of the log."})
    gradient_checkpointing: bool | None = field(  # type: ignore[assignment]  # TRL's has no default by device
        default=None, metadata={"help": "Recompute activations; by default on with a GPU and off without."}
    )
    generation: str = option(ProverConfig, "generation")

    def __post_init__(self):
        turn_off_gpu_defaults(self)
        self.generation = choose_engine(self, self.generation)
        super().__post_init__()

    @property
    def micro_batches_per_batch(self) -> int:
        """Micro-batches of one batch of completions."""
        assert self.steps_per_generation is not None  # TRL has set it
        return self.steps_per_generation

    @property
    def steps_per_batch(self) -> int:
        """Optimiser steps on one batch of completions."""
        return max(1, self.micro_batches_per_batch * self.num_iterations // self.gradient_accumulation_steps)

    def find_uneven_saving(self) -> str | None:
        """
        Explain what is wrong with `save_steps`, if anything.

        A checkpoint in the middle of a batch of completions does not contain the batch, so that training that resumes
        from it draws another batch.
        """
        save_steps = self.save_steps
        if save_steps < 1:  # a share of all steps, if their number is known
            save_steps = ceil(save_steps * max(0, self.max_steps))
        if self.save_strategy != SaveStrategy.STEPS or save_steps % self.steps_per_batch == 0:
            return None
        return (
            f"`save_steps` is {save_steps}, and a generated batch is trained on for {self.steps_per_batch} steps: use"
            " a multiple of them, or a run that resumes from a checkpoint differs from one that was not stopped."
        )
