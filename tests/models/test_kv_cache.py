"""How many rows can be sampled at once."""

import pytest
import torch
from transformers import Qwen2Config

from pvg_hf.models.kv_cache import bytes_per_row, cache_width, rows_that_fit

QWEN = Qwen2Config(
    vocab_size=151_936,
    hidden_size=896,
    intermediate_size=4864,
    num_hidden_layers=24,
    num_attention_heads=14,
    num_key_value_heads=2,
)  # Qwen2.5-0.5B
GB = 10**9


def test_a_row_has_keys_values_activations_and_logits():
    assert cache_width(QWEN) == 2 * 2 * 64
    cache, activations = 24 * 256 * 2, 3 * (896 + 4864) * 2  # bytes of a token in bfloat16
    logits = 151_936 * (2 + 4 + 4 + 16)
    assert bytes_per_row(QWEN, torch.bfloat16, 400) == 400 * (cache + activations) + logits


def test_without_shared_keys_and_values_every_head_has_its_own():
    config = Qwen2Config(hidden_size=64, num_attention_heads=4, num_key_value_heads=None)
    assert cache_width(config) == 2 * 64


@pytest.mark.parametrize(
    ("free_bytes", "rows"),
    [(0, 1), (20 * 10**6, 1), (8 * GB, 256), (16 * GB, 512), (140 * GB, 1024)],
    ids=["nothing is free", "one row", "8 GB", "16 GB", "an H200"],
)
def test_rows_are_the_largest_power_of_two_that_fits(free_bytes, rows):
    assert rows_that_fit(QWEN, torch.bfloat16, 400, free_bytes) == rows  # a row needs 22.7 MB


def test_a_row_in_float32_needs_more():
    assert rows_that_fit(QWEN, torch.float32, 400, 8 * GB) < rows_that_fit(QWEN, torch.bfloat16, 400, 8 * GB)
