import re

import pytest
import torch

from pvg_hf.config import Recipe, load_recipe
from pvg_hf.config.recipe import list_memory_settings
from pvg_hf.game.limits import OutOfMemory, naming_memory_settings
from pvg_hf.run.layout import ROUND_PHASES


@pytest.mark.parametrize("phase", ["warmup", "bootstrap", *ROUND_PHASES])
def test_every_phase_has_settings_that_lower_its_memory(phase):
    keys = re.findall(r"`([\w.]+)` \(", list_memory_settings(Recipe(), phase))
    assert len(keys) >= 1
    values = Recipe().to_dict()
    for key in keys:
        section, name, *_ = key.split(".")
        assert name in values[section]


def test_settings_are_listed_by_their_effect():
    keys = re.findall(r"`prover\.(\w+)` \(", list_memory_settings(Recipe(), "prover"))
    assert keys[:4] == ["micro_batch_size", "gradient_checkpointing", "lora", "quantization"]


def test_the_error_names_the_settings_in_order_with_their_values():
    recipe = Recipe()
    message = "The mint phase does not fit in memory: too much to ask"
    with pytest.raises(OutOfMemory, match=message) as caught, naming_memory_settings(recipe, "mint"):
        raise torch.OutOfMemoryError("too much to ask\nand more of it")
    text = str(caught.value)
    assert f"`mint.problems_per_batch` (lower, now {recipe.mint.problems_per_batch})" in text
    assert text.index("mint.problems_per_batch") < text.index("prover.max_completion_length")
    assert "and more of it" not in text


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"lora": {}}, "prover.lora"),
        ({"gradient_checkpointing": True}, "prover.gradient_checkpointing"),
        ({"quantization": "4bit", "lora": {}}, "prover.quantization"),
        ({"micro_batch_size": 1}, "prover.micro_batch_size"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_setting_that_is_made_is_no_advice(values, key):
    assert f"`{key}`" in list_memory_settings(Recipe(), "prover")
    assert f"`{key}`" not in list_memory_settings(load_recipe({"prover": values}), "prover")


@pytest.mark.parametrize(("phase", "is_named"), [("prover", True), ("mint", False)])
def test_a_critic_is_named_in_its_phase(phase, is_named):
    recipe = load_recipe({"prover": {"algorithm": "ppo", "ppo": {"critic": "verifier"}}})
    with pytest.raises(OutOfMemory) as caught, naming_memory_settings(recipe, phase):
        raise torch.OutOfMemoryError("too much")
    assert ("`prover.ppo.critic` (adapter, now verifier)" in str(caught.value)) is is_named


def test_other_errors_pass():
    with pytest.raises(ValueError, match="something else"), naming_memory_settings(Recipe(), "mint"):
        raise ValueError("something else")
    with naming_memory_settings(Recipe(), "mint"):
        pass
