"""Keys of a recipe that set trainer arguments."""

from dataclasses import fields, replace
from pathlib import Path

import pytest

from pvg_hf import load_recipe
from pvg_hf.config.fields import Decides, marked_arguments
from pvg_hf.models.hardware import Hardware
from pvg_hf.trainers.arguments import TrainerRun, prover_settings, recipe_keys, score_settings, verifier_settings
from pvg_hf.trainers.prover.config import ProverGRPOConfig
from pvg_hf.trainers.reward.config import NoisyRewardConfig

RUN = TrainerRun(Path("checkpoints"), Hardware.here("cpu"))


def settings_of(recipe, trainer: str) -> dict:
    if trainer == "prover":
        return prover_settings(recipe, RUN)
    if trainer == "score":
        return score_settings(recipe.verifier, RUN)
    return verifier_settings(recipe, RUN, label_rates=(0.0, 0.0), assumed_rates=(0.0, 0.0))


@pytest.mark.parametrize(
    ("overrides", "trainer", "argument", "value"),
    [
        (["verifier.pairs_per_step=7"], "verifier", "per_device_train_batch_size", 7),
        (["verifier.micro_batch_size=8"], "verifier", "per_device_train_batch_size", 8),
        (["verifier.micro_batch_size=8"], "verifier", "gradient_accumulation_steps", 4),
        ([], "verifier", "gradient_accumulation_steps", 1),  # `auto`, not resolved for a GPU
        (["verifier.kind=score", "verifier.micro_batch_size=8"], "score", "gradient_accumulation_steps", 4),
        ([], "verifier", "activation_checkpointing", False),
        (["verifier.gradient_checkpointing=true"], "verifier", "activation_checkpointing", True),
        (["verifier.invariance.weight=3"], "verifier", "invariance_weight", 3.0),
        (["noise.rho0=0.1", "noise.resample=epoch"], "verifier", "noise_resample", "epoch"),
        (["verifier.kind=score", "verifier.score.beta=0.2"], "score", "beta", 0.2),
        (["verifier.kind=score", "verifier.learning_rate=0.5"], "score", "learning_rate", 0.5),
        (["prover.beta=0.3"], "prover", "beta", 0.3),
        (["prover.algorithm=ppo", "prover.ppo.gae_lambda=0.5"], "prover", "gae_lambda", 0.5),
        (["watchdogs.max_truncated=0.25"], "prover", "max_truncated_share", 0.25),
        (["logging.log_completions=true"], "prover", "log_completions", True),
    ],
)
def test_a_key_is_passed_as_the_argument_that_it_is_marked_with(overrides, trainer, argument, value):
    assert settings_of(load_recipe({}, overrides), trainer)[argument] == value


def test_a_batch_is_divided_among_processes():
    run = TrainerRun(Path("checkpoints"), replace(Hardware.here("cpu"), num_processes=4))
    recipe = load_recipe({}, ["verifier.kind=score", "verifier.score={proofs_per_step: 6, num_generations: 8}"])
    rates = {"label_rates": (0.0, 0.0), "assumed_rates": (0.0, 0.0)}
    assert verifier_settings(recipe, run, **rates)["per_device_train_batch_size"] == 8
    # 6 proofs with 8 evaluations each
    score = score_settings(recipe.verifier, run)
    assert (score["per_device_train_batch_size"], score["per_device_eval_batch_size"]) == (12, 12)


def test_arguments_of_another_kind_of_verifier_are_left_out():
    settings = settings_of(load_recipe({}, ["verifier.kind=score"]), "score")
    assert not {"loss", "correction", "center", "max_length"} & set(settings)


@pytest.mark.parametrize(
    ("overrides", "player", "argument", "key"),
    [
        ([], "verifier", "per_device_train_batch_size", "verifier.pairs_per_step"),
        (["verifier.kind=score"], "verifier", "per_device_train_batch_size", "verifier.score.proofs_per_step"),
        ([], "verifier", "gradient_accumulation_steps", "verifier.micro_batch_size"),
        ([], "prover", "gradient_accumulation_steps", "prover.micro_batch_size"),
        ([], "prover", "vllm_mode", "prover.generation"),
        (["prover.algorithm=ppo"], "prover", "gae_lambda", "prover.ppo.gae_lambda"),
        ([], "prover", "seed", "seed"),
    ],
)
def test_the_key_of_an_argument_is_found(overrides, player, argument, key):
    recipe = load_recipe({}, overrides)
    config = {"prover": recipe.prover, "verifier": recipe.verifier}[player]
    assert recipe_keys(player, config)[argument] == key


@pytest.mark.parametrize("trainer", ["verifier", "score", "prover"])
def test_computed_arguments_are_set(trainer):
    settings = {"score": ["verifier.kind=score"], "verifier": ["verifier.eval_steps=10"]}.get(trainer, [])
    recipe = load_recipe({}, settings)
    player = "prover" if trainer == "prover" else "verifier"
    config = {"prover": recipe.prover, "verifier": recipe.verifier}[player]
    sections = {"score": type(recipe.verifier.score_settings)}.get(trainer, type(config))
    computed = {name for field in fields(sections) for name in marked_arguments(sections, field.name, player, Decides)}
    elsewhere = {"kl_coef", "evaluate_prompt", "judge_prompt", "chat_template_kwargs"}  # another name; the prompts
    assert computed
    assert computed - elsewhere <= set(settings_of(recipe, trainer))


@pytest.mark.parametrize("config", [NoisyRewardConfig, ProverGRPOConfig])
@pytest.mark.parametrize("value", ["bf16", "fp16"])
def test_a_variable_of_accelerate_does_not_decide_the_precision(value, config, tmp_path, monkeypatch):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", value)
    args = config(output_dir=str(tmp_path), use_cpu=True, report_to="none")
    assert (args.mixed_precision, args.bf16, args.fp16) == ("no", False, False)
