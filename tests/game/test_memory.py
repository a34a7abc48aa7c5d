import pytest
import torch

from pvg_hf.check.memory import MEMORY_SETTINGS, list_memory_settings
from pvg_hf.config import Recipe, load_recipe
from pvg_hf.game.limits import OutOfMemory, naming_memory_settings
from pvg_hf.run.layout import ROUND_PHASES


@pytest.mark.parametrize("phase", ["warmup", "bootstrap", *ROUND_PHASES])
def test_every_phase_has_settings_that_are_keys_of_a_recipe(phase):
    values = Recipe().to_dict()
    for key, _ in MEMORY_SETTINGS[phase]:
        section, *rest = key.split(".")
        assert rest[0] in values[section]
    assert list_memory_settings(Recipe(), phase).startswith(f"`{MEMORY_SETTINGS[phase][0][0]}` (")


def test_the_error_names_the_settings_in_order_with_their_values():
    recipe = Recipe()
    message = "The mint phase does not fit in memory: too much to ask"
    with pytest.raises(OutOfMemory, match=message) as caught, naming_memory_settings(recipe, "mint"):
        raise torch.OutOfMemoryError("too much to ask\nand more of it")
    text = str(caught.value)
    assert f"`mint.problems_per_batch` (lower, now {recipe.mint.problems_per_batch})" in text
    assert text.index("mint.problems_per_batch") < text.index("prover.max_completion_length")
    assert "and more of it" not in text


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
