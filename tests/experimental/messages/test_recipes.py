"""Recipes of the message game: shipped ones, overrides and mistakes."""

from pathlib import Path

import pytest

from pvg_hf.config import RecipeError
from pvg_hf.experimental.messages.recipe import load_message_recipe

FOLDER = Path(__file__).parents[3] / "recipes" / "messages"
RECIPES = sorted(FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_opens_with_its_command_and_is_read(path):
    assert f"pvg play messages/{path.stem}" in path.read_text().splitlines()[0]
    recipe = load_message_recipe(path)
    assert recipe.name == path.stem
    assert load_message_recipe(recipe.to_dict()) == recipe


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"verifier": {"kind": "checking", "hidden_size": 8}}, "`verifier`.*`checking` does not use `hidden_size`"),
        ({"prover": {"kind": "transformer", "num_layers": 2}}, "`transformer` does not use `num_layers`"),
        ({"prover": {"model": "distilbert-base-uncased"}}, "`mlp` does not use `model`"),
        ({"prover": {"kind": "checking"}}, "`checking` is a verifier"),
        ({"verifier": {"kind": "checking", "start": "parity", "num_checks": 3}}, "remove `num_checks`"),
        ({"verifier": {"num_checks": 3}}, "`mlp` does not use `num_checks`"),
        ({"prover": {"num_logits": 2}}, "`num_logits` in section `prover`"),
        ({"messages": {"temperature": 0.5}}, "`continuous` do not use `temperature`"),
        ({"training": {"learnig_rate": 1}}, "Did you mean `learning_rate`"),
        ({"noise": {"epsilon": 0.1, "rho0": 0.2}}, "either `epsilon` or"),
        ({"noise": {"schedule": {"kind": "linear", "length": 3, "over": "steps"}}}, "over: rounds"),
        ({"training": {"prover_steps": 0}}, "training.prover_steps"),
        ({"report_to": ["tensorbord"]}, "report_to.*'tensorboard'"),
        ({"task": "arithmetic"}, "pvg play"),
    ],
    ids=lambda value: "",
)
def test_mistakes_are_listed(values, match):
    with pytest.raises(RecipeError, match=match):
        load_message_recipe(values)


def test_all_mistakes_are_reported_together():
    with pytest.raises(RecipeError, match="2 mistake"):
        load_message_recipe({"seed": -1, "training": {"num_rounds": 0}})


def test_overrides_replace_rates_in_the_other_form():
    recipe = load_message_recipe({"noise": {"epsilon": 0.1, "resample": "step"}}, ["noise.rho0=0.2", "seed=7"])
    assert (recipe.noise.rho0, recipe.noise.rho1, recipe.noise.resample, recipe.seed) == (0.2, 0.0, "step", 7)
    recipe = load_message_recipe({"noise": {"rho0": 0.3}}, ["noise.epsilon=0.1"])
    assert (recipe.noise.rho0, recipe.noise.rho1) == (0.1, 0.1)


def test_overrides_replace_the_section_of_another_kind():
    values = {"verifier": {"hidden_size": 8}, "world": {"name": "linear_f2", "options": {"num_train": 5}}}
    recipe = load_message_recipe(values, ["verifier={kind: checking, start: parity}", "world.name=erasure"])
    assert (recipe.verifier.kind, recipe.verifier.hidden_size, recipe.world.options) == ("checking", None, {})
    recipe = load_message_recipe(values, ["verifier={kind: mlp, num_layers: 1}", "world.options.num_test=3"])
    assert (recipe.verifier.hidden_size, recipe.verifier.num_layers) == (8, 1)
    assert recipe.world.options == {"num_train": 5, "num_test": 3}
