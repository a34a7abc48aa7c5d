import pytest
from accelerate.commands.config.config_args import load_config_from_file

from pvg_hf.check.machine import check_sharding


@pytest.fixture
def fsdp(monkeypatch, repository) -> None:
    """Sets the environment in which the launcher starts a script with the shipped configuration."""
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    for name, value in load_config_from_file(str(repository / "recipes/accelerate/fsdp.yaml")).fsdp_config.items():
        monkeypatch.setenv(name.upper(), str(value).lower() if isinstance(value, bool) else str(value))


def test_without_sharding_no_setting_is_refused(recipe_of):
    assert list(check_sharding(recipe_of("prover.quantization=4bit", "prover.lora={}"))) == []


def test_the_shipped_configuration_has_no_mistake(fsdp, recipe_of):
    assert list(check_sharding(recipe_of())) == []


@pytest.mark.parametrize(
    ("variable", "value", "part"),
    [
        ("FSDP_VERSION", "1", "has `fsdp_version: 1`, and a game needs `2`"),
        ("FSDP_STATE_DICT_TYPE", "SHARDED_STATE_DICT", "a game needs `FULL_STATE_DICT`"),
        ("FSDP_CPU_RAM_EFFICIENT_LOADING", "true", "`fsdp_cpu_ram_efficient_loading: true`"),
    ],
)
def test_settings_of_fsdp_that_a_game_cannot_use_are_mistakes(variable, value, part, fsdp, recipe_of, monkeypatch):
    monkeypatch.setenv(variable, value)
    (mistake,) = check_sharding(recipe_of())
    assert part in mistake


@pytest.mark.parametrize(
    ("overrides", "part"),
    [
        (["verifier.quantization=4bit", "verifier.lora={}"], "`verifier.quantization` is `4bit`"),
        (["prover.algorithm=ppo"], "`prover.algorithm` is `ppo`"),
        (["prover.warmup={}"], "`prover` is made by the phase `warmup`"),
        (["verifier.shares_base=true"], "`verifier.shares_base` is true"),
        (["watchdogs.collapse_recovery=supervised"], "`watchdogs.collapse_recovery` is `supervised`"),
    ],
)
@pytest.mark.parametrize("launcher", ["ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED"])
def test_settings_that_cannot_be_sharded_are_mistakes(overrides, part, launcher, fsdp, recipe_of, monkeypatch):
    if launcher != "ACCELERATE_USE_FSDP":
        monkeypatch.delenv("ACCELERATE_USE_FSDP")
        monkeypatch.setenv(launcher, "true")
    (mistake,) = check_sharding(recipe_of(*overrides))
    assert part in mistake
    assert ("FSDP" if "FSDP" in launcher else "DeepSpeed") in mistake or "warmup" in mistake
