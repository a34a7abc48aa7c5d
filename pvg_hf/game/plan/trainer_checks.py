"""Whether the trainers will take the recipe's settings: the arithmetic of batches, and what TRL refuses."""

from collections.abc import Collection, Iterator
from dataclasses import fields
from functools import partial
from math import isqrt
from pathlib import Path

from transformers import TrainingArguments

from pvg_hf.config.sections import PlayerConfig, PPOConfig, ProverConfig, ScoreConfig, VerifierConfig
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.plan.refusals import refusals
from pvg_hf.game.trainer_args import (
    PROVER_CONFIGS,
    prover_arguments,
    prover_settings,
    verifier_arguments,
    verifier_settings,
)
from pvg_hf.suggestions import cut_to_line, show_value, suggest
from pvg_hf.trainers.noisy_reward_config import NoisyRewardConfig

_ANYWHERE = Path("checkpoints")  # a config of TRL wants a folder; it makes none

# Keys of a recipe that set an argument of another name.
_KEYS_OF_BOTH = {
    "activation_checkpointing": "{player}.gradient_checkpointing",
    "disable_tqdm": "logging.progress",
    "num_train_epochs": "{player}.max_steps",
    "report_to": "logging.report_to",
    "save_strategy": "{player}.save_steps",
    "seed": "seed",
    "use_cpu": "device",
}
_KEYS_OF_ONE = {
    "verifier": {
        "crowded_environments": "verifier.invariance.crowded",
        "environment_column": "verifier.invariance.environments",
        "invariance": "verifier.invariance.method",
        "invariance_warmup_steps": "verifier.invariance.warmup_steps",
        "invariance_weight": "verifier.invariance.weight",
        "irm_form": "verifier.invariance.irm_form",
        "noise_level": "noise.level",
        "noise_resample": "noise.resample",
        "noise_rho0": "noise.rho0",
        "noise_rho1": "noise.rho1",
        "per_device_train_batch_size": "verifier.pairs_per_step",
        "rho0": "rates.rho0",
        "rho1": "rates.rho1",
    },
    "prover": {
        "gradient_accumulation_steps": "prover.micro_batch_size",
        "log_completions": "logging.log_completions",
        "max_truncated_share": "watchdogs.max_truncated",
        "model_init_kwargs": "prover.revision",
        "per_device_train_batch_size": "prover.micro_batch_size",
        "rho0": "rates.rho0",
        "rho1": "rates.rho1",
        "use_transformers_continuous_batching": "prover.generation",
        "use_vllm": "prover.generation",
        "vllm_mode": "prover.generation",
    },
}


# Arguments of transformers and TRL that have no meaning in a game: what a script of their own reads, what publishes by another
# way than `hub`, and code of a model's repository.
_MEANINGLESS = {
    "do_eval": "the game decides what runs",
    "do_predict": "the game decides what runs",
    "do_train": "the game decides what runs",
    "hub_always_push": "rounds are published by the section `hub`",
    "hub_model_id": "rounds are published by the section `hub`",
    "hub_private_repo": "rounds are published by the section `hub`",
    "hub_revision": "rounds are published by the section `hub`",
    "hub_strategy": "rounds are published by the section `hub`",
    "hub_token": "a recipe has no place for a token; log in by `hf auth login`, or set HF_TOKEN",
    "local_rank": "the launcher sets it",
    "log_completions_hub_repo": "rounds are published by the section `hub`",
    "resume_from_checkpoint": "a phase that was stopped goes on from its own checkpoints",
    "trackio_bucket_id": "trackers are named by `logging`",
    "trackio_space_id": "trackers are named by `logging`",
    "trackio_static_space_id": "trackers are named by `logging`",
    "trust_remote_code": "code of a model's repository is never run",
}
# Ranges that transformers does not check: least, most.
_RANGES = {
    "adam_beta1": (0, 1),
    "adam_beta2": (0, 1),
    "adam_epsilon": (0, 1),
    "dataloader_num_workers": (0, 128),
    "dataloader_prefetch_factor": (1, 1000),
    "dataset_num_proc": (1, 128),
    "ddp_timeout": (1, 10**7),
    "epsilon": (0, 10),
    "epsilon_high": (0, 10),
    "generation_batch_size": (1, 10**7),
    "label_smoothing_factor": (0, 1),
    "min_p": (0, 1),
    "neftune_noise_alpha": (0, 1000),
    "num_iterations": (1, 10**4),
    "pad_to_multiple_of": (1, 10**5),
    "per_device_eval_batch_size": (1, 10**6),
    "ref_model_mixup_alpha": (0, 1),
    "ref_model_sync_steps": (1, 10**9),
    "repetition_penalty": (0.01, 100),
    "steps_per_generation": (1, 10**6),
    "top_entropy_quantile": (0, 1),
    "top_k": (0, 10**7),
    "top_p": (0, 1),
    "torch_empty_cache_steps": (1, 10**9),
    "vllm_gpu_memory_utilization": (0, 1),
}


def check_verifier_trainer(context: PhaseContext) -> Iterator[str]:
    """The mistakes of `verifier` and `noise` that its trainer would refuse."""
    settings = verifier_settings(context, _ANYWHERE)
    refused = list(refused_fields("verifier", context.recipe.verifier, NoisyRewardConfig, settings))
    yield from refused or refusals("`verifier`", partial(verifier_arguments, context, _ANYWHERE))


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
    small = [divisor for divisor in range(1, isqrt(number) + 1) if number % divisor == 0]
    return cut_to_line(", ".join(map(str, sorted({*small, *(number // divisor for divisor in small)}))), 200)


def _check_prover_arguments(context: PhaseContext) -> Iterator[str]:
    settings = prover_settings(context, _ANYWHERE)
    config = context.recipe.prover
    refused = list(refused_fields("prover", config, PROVER_CONFIGS[config.algorithm], settings))
    yield from refused or refusals("`prover`", partial(_make_prover_arguments, context))


def _make_prover_arguments(context: PhaseContext) -> None:
    """The settings that TRL checks against each other, as the prover phase gives them."""
    mistake = prover_arguments(context, _ANYWHERE).find_uneven_saving()
    if mistake is not None:
        raise ValueError(mistake)


def _check_prompts(config: ProverConfig, num_problems: int) -> Iterator[str]:
    num_roles = 2 if config.roles == "shared" else 1
    if num_problems * num_roles < config.prompts_per_step:
        yield (
            f"`prover.prompts_per_step` is {config.prompts_per_step}, but D_pi has {num_problems} problems for training, "
            f"which give {num_problems * num_roles} prompts: use more problems (`task`, a smaller "
            "`split.verifier_share`), or fewer prompts a step."
        )


def refused_fields(
    player: str, config: PlayerConfig, config_class: type[TrainingArguments], settings: Collection[str]
) -> Iterator[str]:
    """Mistakes of `trainer`: what no trainer knows, what a key of the recipe sets, and what the game relies on."""
    known = [field.name for field in fields(config_class) if field.init]
    keys = recipe_keys(player, config)
    for name, value in config.trainer.items():
        mistake = f"`{player}.trainer` has `{name}`, which"
        if name in keys:
            yield f"{mistake} the recipe sets by its key `{keys[name]}`: use that."
        elif name in settings:
            yield f"{mistake} the game sets itself and relies on: leave it out."
        elif name in _MEANINGLESS:
            yield f"{mistake} has no meaning in a game ({_MEANINGLESS[name]}): leave it out."
        elif name not in known:
            yield f"`{player}.trainer` has `{cut_to_line(name)}`, which is no field of `{config_class.__name__}`. {suggest(name, known)}"
        elif name in _RANGES and value is not None and not _is_within(value, *_RANGES[name]):
            least, most = _RANGES[name]
            yield (
                f"`{player}.trainer.{name}` must be a number from {least:,} to {most:,}, or left out; got {show_value(value)}."
            )


def _is_within(value: object, least: float, most: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most


def recipe_keys(player: str, config: PlayerConfig) -> dict[str, str]:
    """The key of a recipe by the argument that it sets."""
    of_section = {field.name: f"{player}.{field.name}" for field in fields(config)}
    of_both = {name: key.format(player=player) for name, key in _KEYS_OF_BOTH.items()}
    return {**of_section, **of_both, **_KEYS_OF_ONE[player], **_keys_of_ppo(config), **_keys_of_score(config)}


def _keys_of_ppo(config: PlayerConfig) -> dict[str, str]:
    if not isinstance(config, ProverConfig) or config.algorithm != "ppo":
        return {}
    return {field.name: f"prover.ppo.{field.name}" for field in fields(PPOConfig)} | {"kl_coef": "prover.beta"}


def _keys_of_score(config: PlayerConfig) -> dict[str, str]:
    if not isinstance(config, VerifierConfig) or config.kind != "score":
        return {}
    batch = {"per_device_train_batch_size": "verifier.score.proofs_per_step"}
    return {field.name: f"verifier.score.{field.name}" for field in fields(ScoreConfig)} | batch
