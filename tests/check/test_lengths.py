"""Lengths of texts in tokens."""

import pytest

from pvg_hf.check.phase_costs import Length, measure_lengths
from pvg_hf.core.roles import Role
from pvg_hf.data.problems import GameProblems


def test_lengths_are_those_of_the_real_texts(recipe_of, tokenizer):
    recipe = recipe_of()
    game = GameProblems.load(recipe)
    lengths = measure_lengths(recipe, game)
    problems = game.parts["prover"].to_list()
    prompts = [len(tokenizer(game.prompt(p, Role.SNEAKY, tokenizer))["input_ids"]) for p in problems]
    solutions = [len(tokenizer(problem["reference"])["input_ids"]) + 1 for problem in problems]
    assert not lengths.is_estimated
    assert lengths.prompt[Role.SNEAKY].mean == pytest.approx(sum(prompts) / len(prompts))
    assert lengths.prompt[Role.SNEAKY].longest == max(prompts)
    assert lengths.solution.mean == pytest.approx(sum(solutions) / len(solutions))


def test_solutions_are_no_longer_than_they_may_be(recipe_of):
    recipe = recipe_of("prover.max_completion_length=7")
    lengths = measure_lengths(recipe, GameProblems.load(recipe))
    assert lengths.solution == Length(7, 7, 7)
