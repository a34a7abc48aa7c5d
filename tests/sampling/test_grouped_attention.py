"""Attention of one new token for all query heads that share keys and values."""

import pytest
import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from pvg_hf.sampling.grouped_attention import NAME, grouped_attention, grouped_sdpa


@pytest.mark.parametrize("new_tokens", [1, 3])
@pytest.mark.parametrize("key_heads", [1, 2, 6])
def test_outputs_are_those_of_transformers(new_tokens, key_heads):
    torch.manual_seed(0)
    module = torch.nn.Module()
    module.num_key_value_groups = 6 // key_heads
    query = torch.randn(4, 6, new_tokens, 8)
    key, value = torch.randn(2, 4, key_heads, 10, 8)
    mask = torch.rand(4, 1, new_tokens, 10) < 0.7
    mask[..., 0] = True
    output, _ = grouped_sdpa(module, query, key, value, mask, scaling=0.3)
    expected, _ = sdpa_attention_forward(module, query, key, value, mask, scaling=0.3)
    torch.testing.assert_close(output, expected)


def test_a_model_attends_as_before_afterwards(ending_prover):
    model, _ = ending_prover(every=10)
    assert model.config._attn_implementation == "sdpa"
    with grouped_attention(model):
        assert model.config._attn_implementation == NAME
    assert model.config._attn_implementation == "sdpa"
    model.set_attn_implementation("eager")
    with grouped_attention(model):
        assert model.config._attn_implementation == "eager"
