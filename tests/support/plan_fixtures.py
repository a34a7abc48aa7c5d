"""A small recipe, and its amounts with round numbers of texts and problems."""

from dataclasses import replace

import pytest

from pvg_hf import load_recipe
from pvg_hf.check.phase_costs import Amounts, Length, TextLengths
from pvg_hf.core.roles import Role
from pvg_hf.data.problems import GameProblems
from pvg_hf.models.hardware import Hardware

LENGTHS = TextLengths(
    prompt={Role.HELPFUL: Length(10, 12, 15), Role.SNEAKY: Length(20, 22, 25), Role.BASE: Length(5, 6, 7)},
    solution=Length(8, 9, 10),
    verifier_input=Length(30, 33, 40),
    is_estimated=False,
)
SIZES = {"verifier": 20, "verifier_heldout": 5, "prover": 12, "prover_heldout": 4, "test": 3}


@pytest.fixture(autouse=True)
def rates_of_other_games(tmp_path, monkeypatch):
    """Keeps plans from finding rates of other tests."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path / "no-cache"))


@pytest.fixture
def values(small_recipe):
    """A recipe that can be played, as plain values."""
    return {**small_recipe, "name": "planned", "mint": {"test_solutions_per_problem": 8}}


@pytest.fixture
def recipe_of(values):
    """The recipe with overrides."""
    return lambda *overrides: load_recipe(values, overrides)


@pytest.fixture
def hardware() -> Hardware:
    """This machine's processor."""
    return Hardware.here("cpu")


@pytest.fixture
def amounts_of(recipe_of, hardware):
    """Amounts with `LENGTHS`, for a split with parts of `SIZES`."""

    def make(*overrides: str) -> Amounts:
        recipe = recipe_of(*overrides)
        problems = GameProblems.load(recipe)
        parts = {name: problems.parts[name].select([0] * number) for name, number in SIZES.items()}
        return Amounts(recipe, replace(problems, parts=parts), hardware, LENGTHS)

    return make
