"""Checkers that err at one rate in different ways."""

import pandas as pd
import pytest

from pvg_hf.config import RecipeError, load_recipe
from pvg_hf.sweep.arms import CLEAN, arm_recipe, describe_arms, fill_up

SEVENS = [{"selector": {"path": "completion_extracted", "op": "regex", "value": "7$"}, "FPR": 0.5}]


def make_recipe(tmp_path, checkers, rate=0.2):
    return load_recipe({"output_dir": str(tmp_path), "arms": {"rate": rate, "seeds": [3], "checkers": checkers}})


def wrong_solutions() -> pd.DataFrame:
    """Ten wrong solutions, of which two end in 7."""
    texts = [f"#### {number}" for number in (7, 17, 1, 2, 3, 4, 5, 6, 8, 9)]
    return pd.DataFrame({"problem_id": "a", "solution": texts, "reference": "#### 100"})


def test_random_errors_fill_up_to_the_common_rate(tmp_path):
    """The key accepts half of 2 in 10; .1 more of the other 8 in 10 is 1 in 8."""
    errors = fill_up(make_recipe(tmp_path, {"sevens": SEVENS}), "sevens", wrong_solutions(), seed=3)
    fill = errors.FPR
    assert fill == pytest.approx(0.125)
    assert errors.targeted_buckets[0].FPR == 0.5


def test_an_arm_without_buckets_errs_at_random(tmp_path):
    errors = fill_up(make_recipe(tmp_path, {"random": []}), "random", wrong_solutions(), seed=3)
    assert (errors.FPR, errors.strategy) == (0.2, "uniform")


def test_a_key_above_the_common_rate_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"`arms.checkers.sevens` alone accept 0.100"):
        fill_up(make_recipe(tmp_path, {"sevens": SEVENS}, rate=0.05), "sevens", wrong_solutions(), seed=3)


def test_the_recipe_of_an_arm(tmp_path):
    recipe = make_recipe(tmp_path, {"sevens": SEVENS})
    errors = fill_up(recipe, "sevens", wrong_solutions(), seed=3)
    made = arm_recipe(recipe, "sevens", 3, errors)
    assert (made.seed, made.arms, made.noise.applies_to) == (3, None, "prover")
    assert made.noise.checker.errors == errors
    assert made.noise.checker.noise_enabled is False
    assert arm_recipe(recipe, CLEAN, 3, None).noise.checker is None


def test_every_arm_is_described_once(tmp_path):
    recipe = make_recipe(tmp_path, {"random": [], "sevens": SEVENS})
    assert [title for title, _ in describe_arms(recipe)] == [
        "clean, 1 game(s)",
        "random, 1 game(s)",
        "sevens, 1 game(s)",
    ]


def test_a_recipe_without_arms_is_refused():
    with pytest.raises(RecipeError, match="`arms`"):
        list(describe_arms(load_recipe({})))
