from collections import Counter
from dataclasses import replace

import pytest
from datasets import Dataset

from pvg_hf import load_recipe
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.data.problems import GameProblems
from pvg_hf.game.phases.prover import prover_prompts


@pytest.fixture
def problems(game) -> GameProblems:
    return GameProblems.load(load_recipe(game()))


@pytest.fixture
def prompts(game, tokenizer, problems):
    config = load_recipe(game()).prover

    def make(roles=GAME_ROLES, *, seed=0, easiest_first=False, **changes) -> Dataset:
        changed = replace(config, **changes)
        return prover_prompts(changed, problems, tokenizer, roles, seed=seed, easiest_first=easiest_first)

    return make


def test_every_problem_is_asked_in_each_role_before_any_comes_again(prompts, problems):
    num_problems = len(problems.parts["prover"])
    rows = prompts(max_steps=num_problems, prompts_per_step=4)  # two epochs
    asked = list(zip(rows["problem_id"], rows["role"], strict=True))
    epoch = 2 * num_problems
    assert len(asked) == 2 * epoch
    assert set(Counter(asked[:epoch]).values()) == {1}
    assert set(asked[:epoch]) == set(asked[epoch:])
    assert asked[:epoch] != asked[epoch:]


def test_order_follows_from_the_seed(prompts):
    orders = [prompts(seed=seed)["problem_id"][:] for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]


def test_prompts_are_those_of_the_role(prompts):
    rows = prompts((Role.SNEAKY,))
    assert set(rows["role"]) == {"sneaky"}
    assert all(row["prompt"] == f"{row['problem']}\nsneaky solution:\n" for row in rows)


def test_easiest_first_repeats_its_problems_if_they_run_out(prompts, problems):
    num_problems = len(problems.parts["prover"])
    numbers = prompts(easiest_first=True, max_steps=num_problems, prompts_per_step=4)["difficulty"][:]
    epoch = 2 * num_problems
    assert len(numbers) == 2 * epoch
    assert numbers[:epoch] == numbers[epoch:] == sorted(numbers[:epoch])


def test_too_few_problems_for_one_step_are_refused(prompts):
    with pytest.raises(ValueError, match=r"\d+ problems.* \d+ prompts; .* = 500"):
        prompts(prompts_per_step=500)
