"""Attention of a single new token that reads keys and values once for all query heads that share them."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "pvg_hf_grouped_sdpa"


def grouped_sdpa(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **settings,
) -> tuple[torch.Tensor, None]:
    """
    Transformers' scaled dot-product attention, without copies of keys and values for a single new token.

    In compiled code, transformers copies keys and values to every query head: with 14 heads for 2, by count, a
    decoding step then moves 15 times the bytes of the cache.

    Args:
        query: shape `(rows, heads, new tokens, width)`.
        key: shape `(rows, key heads, tokens, width)`.
        value: shape `(rows, key heads, tokens, width)`.
        attention_mask: shape `(rows, 1, new tokens, tokens)`.
    Returns: the output, `(rows, new tokens, heads, width)`, and nothing.
    """
    rows, heads, new_tokens, width = query.shape
    key_heads = key.shape[1]
    is_plain = all(settings.get(name) is None for name in ("softcap", "position_bias", "cache"))
    if new_tokens != 1 or key_heads == heads or not is_plain:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **settings)
    grouped = query.reshape(rows, key_heads, heads // key_heads, width)
    output = functional.scaled_dot_product_attention(grouped, key, value, attn_mask=attention_mask, scale=scaling)
    return output.reshape(rows, 1, heads, -1), None


AttentionInterface.register(NAME, grouped_sdpa)
AttentionMaskInterface.register(NAME, sdpa_mask)


@contextmanager
def grouped_attention(model: PreTrainedModel) -> Iterator[None]:
    """Use [`grouped_sdpa`] in a model that uses transformers' scaled dot-product attention."""
    if model.config._attn_implementation != "sdpa" or not model._can_set_attn_implementation():
        yield
        return
    model.set_attn_implementation(NAME)
    try:
        yield
    finally:
        model.set_attn_implementation("sdpa")
