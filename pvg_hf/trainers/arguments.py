"""
Converts a player's section of the recipe to the arguments of its trainer.

The arguments combine settings from keys of the recipe, settings that the game relies on, and the section's `trainer`,
which can add to the settings but not replace them.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pvg_hf.analyses.settings import ScoreVerifierSettings
from pvg_hf.config import Recipe
from pvg_hf.config.fields import ArgumentMark, Sets, marked_arguments, marks_of
from pvg_hf.config.player_sections import PlayerConfig, PPOConfig, ProverConfig, VerifierConfig
from pvg_hf.data.label_rates import Rates
from pvg_hf.models.hardware import Hardware
from pvg_hf.trainers.generative.config import ScoreVerifierConfig
from pvg_hf.trainers.ppo.config import ProverPPOConfig
from pvg_hf.trainers.prover.config import ProverGRPOConfig
from pvg_hf.trainers.reward.config import NoisyRewardConfig

MAX_SEED = 2**31  # transformers seeds NumPy's old generator, which takes 32 bits
PROVER_CONFIGS: dict[str, type[ProverGRPOConfig]] = {"grpo": ProverGRPOConfig, "ppo": ProverPPOConfig}


@dataclass(frozen=True)
class TrainerRun:
    """
    Inputs of a trainer's arguments that are not in the recipe.

    Args:
        hardware: Device and number of processes of the training.
    """

    output: Path
    hardware: Hardware
    seed: int = 0
    show_progress: bool = False


def verifier_arguments(
    recipe: Recipe, run: TrainerRun, *, label_rates: Rates, assumed_rates: Rates, noise_seed: int = 0
) -> NoisyRewardConfig:
    """
    Return the arguments for training a verifier on pairs.

    Args:
        label_rates: `(rho0, rho1)` at which labels flip.
        assumed_rates: `(rho0, rho1)` that the correction assumes.
        noise_seed: Seed of labels that are drawn during training.
    """
    settings = verifier_settings(
        recipe, run, label_rates=label_rates, assumed_rates=assumed_rates, noise_seed=noise_seed
    )
    return NoisyRewardConfig(**{**_machine_defaults(recipe.verifier, run), **recipe.verifier.trainer}, **settings)


def verifier_settings(
    recipe: Recipe, run: TrainerRun, *, label_rates: Rates, assumed_rates: Rates, noise_seed: int = 0
) -> dict[str, Any]:
    """Return the verifier's arguments that `verifier.trainer` must not set."""
    config, noise = recipe.verifier, recipe.noise
    in_trainer = noise.is_for_verifier and noise.flips_in_training
    return {
        **_shared_settings(config, run),
        **_taken_values(config, "verifier"),
        **_taken_values(noise, "verifier"),
        **_taken_values(config.invariance, "verifier"),
        **_micro_batches(config, config.pairs_per_step // run.hardware.num_processes),
        **_validation_settings(config),
        "environment_column": {"round": "source", "round_role": "environment"}[config.invariance.environments],
        "noise_rho0": label_rates[0] if in_trainer else 0.0,
        "noise_rho1": label_rates[1] if in_trainer else 0.0,
        "rho0": assumed_rates[0],
        "rho1": assumed_rates[1],
        "noise_seed": noise_seed,
        **(_soft_labels(config.loss) if noise.soft_labels else {}),
    }


def _soft_labels(loss: str) -> dict[str, Any]:
    """Return the settings for training on mean labels: for a pair, the shares of the two orders among untied pairs."""
    if loss == "bradley_terry":
        return {"correction": "smoothing", "noise_rho0": 0.0, "noise_rho1": 0.0}
    return {"noise_resample": "mean"}


def score_arguments(config: VerifierConfig, run: TrainerRun, prompts: ScoreVerifierSettings) -> ScoreVerifierConfig:
    """Return the arguments for training a score verifier with `prompts`."""
    asked: dict[str, Any] = {
        "evaluate_prompt": prompts.evaluate_prompt,
        "judge_prompt": prompts.judge_prompt,
        "chat_template_kwargs": dict(prompts.chat_template_kwargs),
    }
    return ScoreVerifierConfig(
        **{**_machine_defaults(config, run), **config.trainer}, **score_settings(config, run), **asked
    )


def score_settings(config: VerifierConfig, run: TrainerRun) -> dict[str, Any]:
    """Return the score verifier's arguments that `verifier.trainer` must not set, except its prompts."""
    score = config.score_settings
    rows = score.proofs_per_step * score.num_generations // run.hardware.num_processes
    return {
        **_shared_settings(config, run),
        **_micro_batches(config, rows),
        "per_device_eval_batch_size": rows,
        **_taken_values(config, "verifier", without=config.pair_keys()),
        **_taken_values(score, "verifier"),
        "model_init_kwargs": _reference_settings(config),
        **_validation_settings(config),
        "shuffle_dataset": False,
        "log_completions": False,
    }


def _validation_settings(config: VerifierConfig) -> dict[str, Any]:
    """Return the arguments that keep the best of the checkpoints, if the verifier is validated."""
    if config.validation_steps is None:
        return {}
    steps = min(config.validation_steps, config.max_steps)
    metric: dict[str, Any] = {}
    if config.traits.learns_from_pairs:
        # The loss on noisy labels is lowest for scores that are as uncertain as these, which a correction prevents.
        has_loss = config.correction == "none"
        metric = {"metric_for_best_model": "eval_loss" if has_loss else "eval_accuracy"}
        metric |= {"greater_is_better": not has_loss}
    return {
        **metric,
        "eval_strategy": "steps",
        "eval_steps": steps,
        "save_strategy": "steps",
        "save_steps": steps,
        "save_total_limit": 3,  # the best one and two to resume from
        "load_best_model_at_end": True,
    }


def prover_arguments(
    recipe: Recipe,
    run: TrainerRun,
    *,
    assumed_rates: Rates = (0.0, 0.0),
    temperature: float | None = None,
    threshold: float | None = None,
) -> ProverGRPOConfig:
    """
    Return the arguments for training a prover.

    Args:
        assumed_rates: `(rho0, rho1)` that the reward's correction assumes.
    """
    settings = prover_settings(recipe, run, assumed_rates)
    settings["acceptance_threshold"] = threshold
    if temperature is not None:
        settings["temperature"] = temperature
    machine = _machine_defaults(recipe.prover, run)
    if recipe.prover.generation == "continuous":
        machine["bf16"] = False  # TRL would convert all weights to bfloat16, including adapters
    added = {"num_completions_to_print": 0, **machine, **recipe.prover.trainer}
    return PROVER_CONFIGS[recipe.prover.algorithm](**added, **settings)


def prover_settings(recipe: Recipe, run: TrainerRun, assumed_rates: Rates = (0.0, 0.0)) -> dict[str, Any]:
    """Return the prover's arguments that `prover.trainer` must not set."""
    config = recipe.prover
    per_process = config.prompts_per_step * config.num_generations // run.hardware.num_processes
    return {
        **_shared_settings(config, run),
        **_taken_values(config, "prover"),
        **(_taken_values(config.ppo_settings, "prover") if config.has_critic else {}),
        **_taken_values(recipe.watchdogs, "prover"),
        **_taken_values(recipe.logging, "prover"),
        **_micro_batches(config, per_process),
        "use_vllm": config.generation.startswith("vllm_"),
        "vllm_mode": config.generation.removeprefix("vllm_") if "vllm" in config.generation else "colocate",
        "use_transformers_continuous_batching": config.generation == "continuous",
        "shuffle_dataset": False,
        "model_init_kwargs": _reference_settings(config),
        "rho0": assumed_rates[0],
        "rho1": assumed_rates[1],
        "acceptance_threshold": None,
    }


def _reference_settings(config: PlayerConfig) -> dict[str, Any] | None:
    """Return TRL's arguments for loading the KL reference, i.e. the player's initial weights."""
    return {"revision": config.revision} if config.revision and not config.is_made else None


def _micro_batches(config: PlayerConfig, share: int) -> dict[str, int]:
    """Return the arguments that divide a process's share of a step into micro-batches."""
    rows = min(config.rows_at_once(share), share)
    return {"per_device_train_batch_size": rows, "gradient_accumulation_steps": share // rows}


def _shared_settings(config: VerifierConfig | ProverConfig, run: TrainerRun) -> dict[str, Any]:
    return {
        "gradient_checkpointing": config.recomputes,
        "activation_checkpointing": config.recomputes,
        "output_dir": str(run.output),
        "seed": run.seed % MAX_SEED,
        "num_train_epochs": 1,  # without effect, since `max_steps` is set
        "logging_strategy": "steps",
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "save_strategy": "steps" if config.checkpoint_steps else "no",
        "save_steps": config.checkpoint_steps or config.max_steps,
        "save_total_limit": 2,
        "save_only_model": False,
        "ignore_data_skip": False,
        "eval_strategy": "no",
        "push_to_hub": False,
        "use_cpu": run.hardware.device.type == "cpu",
        "report_to": "none",
        "disable_tqdm": not run.show_progress,
    }


def _taken_values(config: Any, player: str, *, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the trainer arguments that get the unchanged values of a section's keys, except those of some keys."""
    return {
        argument: vars(config)[field.name]
        for field in fields(config)
        if field.name not in without
        for argument in marked_arguments(type(config), field.name, player, Sets)
    }


def recipe_keys(player: str, config: PlayerConfig) -> dict[str, str]:
    """Return the key of a recipe by the trainer argument that it sets, and every key of the player by its own name."""
    used: Mapping[str, type] = {}
    if isinstance(config, VerifierConfig):
        used = config.traits.sections
    elif isinstance(config, ProverConfig) and config.has_critic:
        used = {"ppo": PPOConfig}
    keys = {field.name: f"{player}.{field.name}" for field in fields(config)}
    for name, section in used.items():
        keys |= {field.name: f"{player}.{name}.{field.name}" for field in fields(section)}
    unused = [f"{player}.{name}." for name in ("ppo", "score") if name not in used]
    unused.append("prover." if player == "verifier" else "verifier.")
    for key, mark in marks_of(Recipe, ArgumentMark):
        if mark.player in (None, player) and not key.startswith(tuple(unused)):
            keys |= dict.fromkeys(mark.arguments or (key.rpartition(".")[2],), key)
    return keys


def _machine_defaults(config: PlayerConfig, run: TrainerRun) -> dict[str, Any]:
    """Return arguments that depend on the machine; `trainer` may override them."""
    hardware = run.hardware
    return {"bf16": hardware.computes_in_bfloat16(config.dtype), "dataloader_pin_memory": hardware.has_gpu}
