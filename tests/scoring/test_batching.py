from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig

from pvg_hf.scoring.batching import CPU_TOKENS, TokenBudget, choose_tokens
from tests.support.examples import examples


def _batches(lengths: list[int], tokens: int) -> list[list[int]]:
    return [batch for batch, _ in TokenBudget(tokens).run(lengths, lambda batch: batch)]


def test_batches_by_hand():
    # sorted: 1 (index 3), 2 (1), 5 (0), 5 (4), 9 (2). 2 rows of 2 fill 4 of 10; 3 of 5 would be 15; 2 of 5 are 10; 9
    # alone.
    assert _batches([5, 2, 9, 1, 5], 10) == [[3, 1], [0, 4], [2]]
    assert _batches([20, 30], 10) == [[0], [1]]
    assert _batches([], 10) == []


@examples(200)
@given(lengths=st.lists(st.integers(1, 50), max_size=40), tokens=st.integers(1, 120))
def test_batches_are_of_equal_lengths_and_as_full_as_allowed(lengths, tokens):
    batches = _batches(lengths, tokens)
    order = [index for batch in batches for index in batch]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[index] for index in order] == sorted(lengths)
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[index] for index in batch) <= tokens
    for batch, following in pairwise(batches):  # no batch could take one more
        assert (len(batch) + 1) * lengths[following[0]] > tokens


@given(lengths=st.lists(st.integers(1, 50), min_size=1, max_size=40), room=st.integers(50, 400))
def test_a_budget_shrinks_until_batches_fit(lengths, room):
    def forward(batch: list[int]) -> list[int]:
        if len(batch) * max(lengths[index] for index in batch) > room:
            raise torch.OutOfMemoryError("too much")
        return [lengths[index] for index in batch]

    budget = TokenBudget(10**6)
    found = {index: value for batch, values in budget.run(lengths, forward) for index, value in zip(batch, values)}
    assert found == dict(enumerate(lengths))
    padded = len(lengths) * max(lengths)
    assert budget.tokens == 10**6 if padded <= room else budget.tokens <= padded // 2


def test_a_processor_takes_a_constant_budget():
    assert choose_tokens(LlamaConfig(), torch.device("cpu"), torch.float32) == CPU_TOKENS


@pytest.mark.gpu
def test_a_gpus_budget_follows_from_its_free_memory():
    small = choose_tokens(LlamaConfig(), torch.device("cuda"), torch.bfloat16)
    large = choose_tokens(
        LlamaConfig(hidden_size=64, intermediate_size=64, num_hidden_layers=1), torch.device("cuda"), torch.bfloat16
    )
    assert 1024 <= small <= large
    assert small & (small - 1) == 0
