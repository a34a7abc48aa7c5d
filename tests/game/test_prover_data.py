from collections import Counter

import pytest

from pvg_hf import load_recipe
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.data.problems import GameProblems
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.interrupt import StopRequest
from pvg_hf.game.training_data import prover_prompts
from pvg_hf.run.folder import RunFolder
from pvg_hf.run.schedule import PhaseKey


@pytest.fixture
def context(tmp_path, game):
    def make(round_index=0, **changes) -> PhaseContext:
        recipe = load_recipe(game(**changes))
        return PhaseContext(
            recipe, RunFolder(tmp_path), PhaseKey("prover", round_index), GameProblems.load(recipe), StopRequest()
        )

    return make


def test_every_problem_is_asked_in_each_role_before_any_comes_again(context, tokenizer):
    num_problems = len(context().problems.parts["prover"])
    two_epochs = context(prover__max_steps=num_problems, prover__prompts_per_step=4)
    rows = prover_prompts(two_epochs, tokenizer, GAME_ROLES)
    asked = list(zip(rows["problem_id"], rows["role"], strict=True))
    epoch = 2 * num_problems
    assert len(asked) == 2 * epoch
    assert set(Counter(asked[:epoch]).values()) == {1}
    assert set(asked[:epoch]) == set(asked[epoch:])
    assert asked[:epoch] != asked[epoch:]


def test_order_is_the_rounds_own(context, tokenizer):
    orders = [prover_prompts(context(k), tokenizer, GAME_ROLES)["problem_id"][:] for k in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]


def test_prompts_are_those_of_the_role(context, tokenizer):
    rows = prover_prompts(context(), tokenizer, (Role.SNEAKY,))
    assert set(rows["role"]) == {"sneaky"}
    assert all(row["prompt"] == f"{row['problem']}\nsneaky solution:\n" for row in rows)


def test_easiest_first_goes_round_again_rather_than_end_early(context, tokenizer):
    num_problems = len(context().problems.parts["prover"])
    long = context(prover__max_steps=num_problems, prover__prompts_per_step=4)
    numbers = prover_prompts(long, tokenizer, GAME_ROLES, easiest_first=True)["difficulty"][:]
    epoch = 2 * num_problems
    assert len(numbers) == 2 * epoch
    assert numbers[:epoch] == numbers[epoch:] == sorted(numbers[:epoch])


def test_too_few_problems_for_one_step_are_refused(context, tokenizer):
    with pytest.raises(ValueError, match=r"D_pi has \d+ problems, which give \d+ prompts; .* = 500"):
        prover_prompts(context(prover__prompts_per_step=500), tokenizer, GAME_ROLES)
