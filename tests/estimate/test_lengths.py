"""Lengths of texts in tokens."""

import pytest

from pvg_hf.core.roles import Role
from pvg_hf.estimate.amounts import Length, measure_lengths


def test_lengths_are_those_of_the_real_texts(context_of, tokenizer):
    context = context_of()
    lengths = measure_lengths(context)
    problems = context.problems.parts["prover"].to_list()
    prompts = [len(tokenizer(context.problems.prompt(p, Role.SNEAKY, tokenizer))["input_ids"]) for p in problems]
    solutions = [len(tokenizer(problem["reference"])["input_ids"]) + 1 for problem in problems]
    assert not lengths.is_estimated
    assert lengths.prompt[Role.SNEAKY].mean == pytest.approx(sum(prompts) / len(prompts))
    assert lengths.prompt[Role.SNEAKY].longest == max(prompts)
    assert lengths.solution.mean == pytest.approx(sum(solutions) / len(solutions))


def test_solutions_are_no_longer_than_they_may_be(context_of):
    lengths = measure_lengths(context_of("prover.max_completion_length=7"))
    assert lengths.solution == Length(7, 7, 7)
