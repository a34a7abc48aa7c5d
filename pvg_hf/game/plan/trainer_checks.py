"""Whether the trainers will take the recipe's settings: the arithmetic of batches, and what TRL refuses."""

from collections.abc import Iterator
from dataclasses import fields
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from transformers import TrainingArguments

from pvg_hf.config.sections import PlayerConfig, ProverConfig
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.plan.refusals import refusals
from pvg_hf.game.trainer_args import prover_arguments, verifier_arguments
from pvg_hf.trainers.noisy_reward_config import NoisyRewardConfig
from pvg_hf.trainers.prover_grpo_config import ProverGRPOConfig

_ANYWHERE = Path("checkpoints")  # a config of TRL wants a folder; it makes none


def check_verifier_trainer(context: PhaseContext) -> Iterator[str]:
    """The mistakes of `verifier` and `noise` that its trainer would refuse."""
    unknown = list(_unknown_fields("verifier", context.recipe.verifier, NoisyRewardConfig))
    yield from unknown or refusals("`verifier`", partial(verifier_arguments, context, _ANYWHERE))


def check_prover_trainer(context: PhaseContext) -> Iterator[str]:
    """The mistakes of `prover` that its trainer would refuse, or carry out as something else."""
    config = context.recipe.prover
    if config.roles == "separate" and config.lora is None:
        yield "`prover.roles` is `separate`, which trains an adapter per role: add a section `prover.lora` (`lora: {}`)."
    if config.gradient_accumulation_steps != 1:
        yield (
            f"`prover.gradient_accumulation_steps` is {config.gradient_accumulation_steps}, but the prover's follows from "
            "its batch: leave it out, and set `prover.micro_batch_size` to the solutions that fit in memory."
        )
    batch = list(check_batch(config, context.processes.num_processes))
    yield from batch or _check_prover_arguments(context)
    if context.world is not None:
        yield from _check_prompts(config, len(context.world.parts["prover"]))


def check_batch(config: ProverConfig, num_processes: int) -> Iterator[str]:
    """TRL generates per process and trains in micro-batches; a remainder would be left out or split a group."""
    solutions = config.prompts_per_step * config.num_generations
    product = (
        f"`prover.prompts_per_step` x `prover.num_generations` = {config.prompts_per_step} x {config.num_generations}"
    )
    if solutions % num_processes:
        yield f"{product} = {solutions} solutions cannot be shared evenly by {num_processes} processes."
        return
    share, micro_batch = solutions // num_processes, config.micro_batch_size or solutions // num_processes
    if micro_batch > share or share % micro_batch:
        yield (
            f"`prover.micro_batch_size` is {micro_batch}, which does not divide a process's {share} solutions a step "
            f"({product} over {num_processes} process(es)); take one of {_divisors(share)}."
        )


def _divisors(number: int) -> str:
    return ", ".join(str(divisor) for divisor in range(1, number + 1) if number % divisor == 0)


def _check_prover_arguments(context: PhaseContext) -> Iterator[str]:
    unknown = list(_unknown_fields("prover", context.recipe.prover, ProverGRPOConfig))
    yield from unknown or refusals("`prover`", partial(_make_prover_arguments, context))


def _make_prover_arguments(context: PhaseContext) -> None:
    """The settings that TRL checks against each other, as the prover phase gives them."""
    _check_save_steps(context.recipe.prover, prover_arguments(context, _ANYWHERE))


def _check_save_steps(config: ProverConfig, args: ProverGRPOConfig) -> None:
    steps_per_batch = args.steps_per_generation * args.num_iterations // args.gradient_accumulation_steps
    if config.save_steps and config.save_steps % max(1, steps_per_batch):
        raise ValueError(
            f"`save_steps` is {config.save_steps}, and a generated batch is trained on for {steps_per_batch} steps: take a "
            "multiple of them, or a run that goes on from a checkpoint differs from one that was not stopped."
        )


def _check_prompts(config: ProverConfig, num_problems: int) -> Iterator[str]:
    num_roles = 2 if config.roles == "shared" else 1
    if num_problems * num_roles < config.prompts_per_step:
        yield (
            f"`prover.prompts_per_step` is {config.prompts_per_step}, but D_pi has {num_problems} problems for training, "
            f"which give {num_problems * num_roles} prompts: use more problems (`task`, a smaller "
            "`split.verifier_share`), or fewer prompts a step."
        )


def _unknown_fields(player: str, config: PlayerConfig, config_class: type[TrainingArguments]) -> Iterator[str]:
    known = [field.name for field in fields(config_class) if field.init]
    for name in config.trainer.keys() - set(known):
        closest = get_close_matches(name, known, n=1)
        hint = f"did you mean `{closest[0]}`?" if closest else "see TRL's documentation of its base class."
        yield f"`{player}.trainer` has `{name}`, which is no field of `{config_class.__name__}`; {hint}"
