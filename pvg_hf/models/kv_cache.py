"""Memory of sampling: keys and values, and the rows that fit at once."""

import torch
from transformers import PreTrainedConfig

MAX_ROWS = 1024  # more rows than this make a GPU no faster

DRAWING_BYTES = (
    4 + 4 + 2 * 8
)  # per row and token of the vocabulary: logits, scaled logits, and two float64 distributions


def cache_width(config: PreTrainedConfig) -> int:
    """Numbers in the cache per token and layer: keys and values of all key-value heads."""
    text = config.get_text_config()
    values = text.to_dict()  # not every architecture shares keys and values between heads
    num_heads = text.num_attention_heads
    head_size = values.get("head_dim") or text.hidden_size // num_heads
    return 2 * (values.get("num_key_value_heads") or num_heads) * head_size


def bytes_per_row(config: PreTrainedConfig, dtype: torch.dtype, num_tokens: int) -> int:
    """
    Memory of a row that is being sampled, in bytes.

    It is for keys and values of `num_tokens` tokens in every layer, the activations of one layer while they are read,
    and the logits of the next token with what a draw makes of them.
    """
    text = config.get_text_config()
    cached = text.num_hidden_layers * cache_width(config)
    inner = text.to_dict().get("intermediate_size") or 4 * text.hidden_size
    activations = 3 * (text.hidden_size + inner)  # of a layer's feed-forward part, which needs most
    logits = text.vocab_size * (dtype.itemsize + DRAWING_BYTES)
    return num_tokens * (cached + activations) * dtype.itemsize + logits


def rows_that_fit(config: PreTrainedConfig, dtype: torch.dtype, num_tokens: int, free_bytes: int) -> int:
    """
    Number of rows that can be sampled at once: the largest power of two that fits, between 1 and `MAX_ROWS`.

    Args:
        dtype: Type of its weights, which its keys and values have, too.
        num_tokens: Maximum length of a row in tokens, with its prompt.
        free_bytes: Memory that sampling may use, without the weights.
    """
    fitting = max(1, int(free_bytes // bytes_per_row(config, dtype, num_tokens)))
    return min(MAX_ROWS, 1 << (fitting.bit_length() - 1))
