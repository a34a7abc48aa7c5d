"""
From a player's section of the recipe to the arguments of its trainer.

The settings are what keys of the recipe say and what the game relies on; `trainer` can add to them and replace none.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from pvg_hf.analyses.settings import ScoreVerifierSettings
from pvg_hf.config.players import InvarianceConfig, PlayerConfig, PPOConfig
from pvg_hf.game.console import shows_progress
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.rates import label_rates, stated_rates
from pvg_hf.models.sources import has_bfloat16
from pvg_hf.trainers.generative.config import ScoreVerifierConfig
from pvg_hf.trainers.ppo.config import ProverPPOConfig
from pvg_hf.trainers.prover.config import ProverGRPOConfig
from pvg_hf.trainers.reward.config import NoisyRewardConfig

MAX_SEED = 2**31  # transformers seeds NumPy's old generator, which takes 32 bits
PROVER_CONFIGS: dict[str, type[ProverGRPOConfig]] = {"grpo": ProverGRPOConfig, "ppo": ProverPPOConfig}


def verifier_arguments(
    context: PhaseContext, output: Path, rates: tuple[float, float] | None = None
) -> NoisyRewardConfig:
    """The verifier's; `output` keeps its checkpoints, and `rates` are those that its correction assumes."""
    settings = verifier_settings(context, output)
    if rates is not None:
        settings["rho0"], settings["rho1"] = rates
    return NoisyRewardConfig(**{**_machine_defaults(context), **context.recipe.verifier.trainer}, **settings)


def verifier_settings(context: PhaseContext, output: Path) -> dict[str, Any]:
    """Those of the verifier's arguments that `verifier.trainer` must not have, with the rates that the recipe states."""
    config, noise = context.recipe.verifier, context.recipe.noise
    (rho0, rho1), (noise_rho0, noise_rho1) = stated_rates(context, "verifier"), label_rates(context)
    in_trainer = noise.is_for_verifier and noise.flips_in_training
    return {
        **_shared_settings(context, config, output),
        "per_device_train_batch_size": config.pairs_per_step,
        "gradient_accumulation_steps": config.gradient_accumulation_steps,
        "max_length": config.max_length,
        "loss": config.loss,
        "correction": config.correction,
        "center": config.center,
        "noise_level": noise.level,
        "noise_resample": noise.resample,
        "noise_rho0": noise_rho0 if in_trainer else 0.0,
        "noise_rho1": noise_rho1 if in_trainer else 0.0,
        "rho0": rho0,
        "rho1": rho1,
        **_invariance_settings(config.invariance),
        # What is drawn once is drawn alike in all rounds, and as the pool's labels are.
        "noise_seed": context.recipe.seed if noise.resample == "fixed" else context.seed("noise"),
        **(_soft_labels(config.loss) if noise.soft_labels else {}),
    }


def _invariance_settings(config: InvarianceConfig) -> dict[str, Any]:
    return {
        "invariance": config.method,
        "environment_column": {"round": "source", "round_role": "environment"}[config.environments],
        "invariance_weight": config.weight,
        "invariance_warmup_steps": config.warmup_steps,
        "irm_form": config.irm_form,
        "crowded_environments": config.crowded,
    }


def _soft_labels(loss: str) -> dict[str, Any]:
    """The mean of noisy labels, as the loss takes it: of a pair, the share of strict pairs in either order."""
    if loss == "bradley_terry":
        return {"correction": "smoothing", "noise_rho0": 0.0, "noise_rho1": 0.0}
    return {"noise_resample": "mean"}


def score_arguments(context: PhaseContext, output: Path, settings: ScoreVerifierSettings) -> ScoreVerifierConfig:
    """Those of a verifier that writes, which asks by the prompts of `settings`; `output` keeps its checkpoints."""
    prompts = {
        "evaluate_prompt": settings.evaluate_prompt,
        "judge_prompt": settings.judge_prompt,
        "chat_template_kwargs": dict(settings.chat_template_kwargs),
    }
    machine = {**_machine_defaults(context), **context.recipe.verifier.trainer}
    return ScoreVerifierConfig(**machine, **score_settings(context, output), **prompts)


def score_settings(context: PhaseContext, output: Path) -> dict[str, Any]:
    """Those of its arguments that `verifier.trainer` must not have, but for its prompts."""
    config, score = context.recipe.verifier, context.recipe.verifier.score_settings
    rows = score.proofs_per_step * score.num_generations
    _, revision = context.initial_model("verifier")
    return {
        **_shared_settings(context, config, output),
        "per_device_train_batch_size": rows,
        "per_device_eval_batch_size": rows,
        "gradient_accumulation_steps": config.gradient_accumulation_steps,
        "num_generations": score.num_generations,
        "max_completion_length": score.max_completion_length,
        "temperature": score.temperature,
        "beta": score.beta,
        "model_init_kwargs": {"revision": revision} if revision else None,  # of the KL reference
        "combination": score.combination,
        "format_weight": score.format_weight,
        "score_weight": score.score_weight,
        "shuffle_dataset": False,
        "eval_strategy": "steps",
        "eval_steps": min(score.eval_steps, config.max_steps),
        "save_strategy": "steps",
        "save_steps": min(score.eval_steps, config.max_steps),
        "save_total_limit": 3,
        "load_best_model_at_end": True,
        "log_completions": False,
    }


def prover_arguments(
    context: PhaseContext,
    output: Path,
    *,
    rates: tuple[float, float] | None = None,
    seed_path: tuple[str, ...] = (),
    temperature: float | None = None,
    threshold: float | None = None,
) -> ProverGRPOConfig:
    """
    The prover's.

    Args:
        context ([`PhaseContext`]):
            The phase.
        output (`Path`):
            Where checkpoints are kept.
        rates (`tuple[float, float]`, *optional*):
            Those that the reward's correction assumes, in place of the stated ones.
        seed_path (`tuple[str, ...]`):
            Names that tell this trainer's seed from others of the phase.
        temperature (`float`, *optional*):
            In place of the recipe's.
        threshold (`float`, *optional*):
            Score above which the round's verifier accepts.
    """
    settings = prover_settings(context, output, *seed_path)
    settings["acceptance_threshold"] = threshold
    if rates is not None:
        settings["rho0"], settings["rho1"] = rates
    if temperature is not None:
        settings["temperature"] = temperature
    machine = _machine_defaults(context)
    if context.recipe.prover.generation == "continuous":
        machine["bf16"] = False  # TRL would round all weights to it, adapters too
    added = {"num_completions_to_print": 0, **machine, **context.recipe.prover.trainer}
    return PROVER_CONFIGS[context.recipe.prover.algorithm](**added, **settings)


def prover_settings(context: PhaseContext, output: Path, *seed_path: str) -> dict[str, Any]:
    """Those of the prover's arguments that `prover.trainer` must not have."""
    config = context.recipe.prover
    per_process = config.prompts_per_step * config.num_generations // context.processes.num_processes
    micro_batch = min(config.micro_batch_size or per_process, per_process)
    _, revision = context.initial_model("prover")
    rho0, rho1 = stated_rates(context, "prover")
    return {
        **_shared_settings(context, config, output, *seed_path),
        "per_device_train_batch_size": micro_batch,
        "gradient_accumulation_steps": per_process // micro_batch,
        "num_generations": config.num_generations,
        "max_completion_length": config.max_completion_length,
        "temperature": config.temperature,
        "generation": config.generation,
        "use_vllm": config.generation.startswith("vllm_"),
        "vllm_mode": config.generation.removeprefix("vllm_") if "vllm" in config.generation else "colocate",
        "use_transformers_continuous_batching": config.generation == "continuous",
        "beta": config.beta,
        "scale_rewards": config.scale_rewards,
        "shuffle_dataset": False,
        "model_init_kwargs": {"revision": revision} if revision else None,  # of the KL reference
        "reward": config.reward,
        "reward_options": config.reward_options,
        "reward_correction": config.reward_correction,
        "rho0": rho0,
        "rho1": rho1,
        "max_truncated_share": context.recipe.watchdogs.max_truncated,
        "acceptance_threshold": None,
        "log_completions": context.recipe.logging.log_completions,
        **(_ppo_arguments(config.ppo_settings) if config.algorithm == "ppo" else {}),
    }


def _ppo_arguments(config: PPOConfig) -> dict[str, Any]:
    return {name: value for name, value in asdict(config).items() if name != "critic"}  # which is the trainer's own


def _shared_settings(context: PhaseContext, config: PlayerConfig, output: Path, *seed_path: str) -> dict[str, Any]:
    return {
        "output_dir": str(output),
        "seed": context.seed("trainer", *seed_path) % MAX_SEED,
        "max_steps": config.max_steps,
        "num_train_epochs": 1,  # of no effect beside `max_steps`
        "learning_rate": config.learning_rate,
        "lr_scheduler_type": config.lr_scheduler_type,
        "warmup_steps": config.warmup_steps,
        "weight_decay": config.weight_decay,
        "max_grad_norm": config.max_grad_norm,
        "gradient_checkpointing": config.gradient_checkpointing,
        "activation_checkpointing": config.gradient_checkpointing,  # its new name
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
        "use_cpu": context.processes.device.type == "cpu",
        "report_to": "none",
        "disable_tqdm": not shows_progress(context.recipe),
    }


def _machine_defaults(context: PhaseContext) -> dict[str, Any]:
    """What `trainer` may say otherwise."""
    on_gpu = context.processes.device.type == "cuda"
    return {"bf16": on_gpu and has_bfloat16(), "dataloader_pin_memory": on_gpu}
