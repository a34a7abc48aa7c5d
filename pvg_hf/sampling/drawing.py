"""Draws completions token by token, each row with its own uniform numbers."""

from collections.abc import Sequence

import torch
from transformers import DynamicCache, PreTrainedConfig, PreTrainedModel
from transformers.cache_utils import DynamicLayer

ROOM = 64  # tokens that a buffer is larger than it needs to be


class RoomyLayer(DynamicLayer):
    """A layer's keys and values. A token is written behind the others, where transformers copies all of them."""

    def __init__(self):
        super().__init__()
        self._buffers: tuple[torch.Tensor, torch.Tensor] | None = None  # each (rows, heads, tokens with room, width)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args, **kwargs
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """`key_states` and `value_states` of shape `(rows, heads, new tokens, width)`; returns those of all tokens."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start = self.get_seq_length()
        end = start + key_states.shape[-2]
        if self._buffers is None or self._buffers[0].shape[-2] < end:
            self._buffers = tuple(
                _grow(old, new, end + ROOM) for old, new in ((self.keys, key_states), (self.values, value_states))
            )
        for buffer, new in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[:, :, start:end] = new
        self.keys, self.values = (buffer[:, :, :end] for buffer in self._buffers)
        return self.keys, self.values

    def select(self, rows: torch.Tensor) -> None:
        """Keep `rows` of the batch, in this order and as often as they come."""
        self.batch_select_indices(rows)
        self._buffers = None


def _grow(old: torch.Tensor, new: torch.Tensor, num_tokens: int) -> torch.Tensor:
    rows, heads, _, width = new.shape
    buffer = new.new_empty(rows, heads, num_tokens, width)
    if old.numel():
        buffer[:, :, : old.shape[-2]] = old
    return buffer


class RoomyCache(DynamicCache):
    """
    Transformers' dynamic cache with [`RoomyLayer`] where a layer keeps everything; layers with a sliding window stay as
    they are.

    Args:
        config ([`~transformers.PreTrainedConfig`]):
            Of the model.
    """

    def __init__(self, config: PreTrainedConfig):
        super().__init__(config=config)
        self.layers = [RoomyLayer() if type(layer) is DynamicLayer else layer for layer in self.layers]

    def select(self, rows: torch.Tensor) -> None:
        """Keep `rows` of the batch, in this order and as often as they come."""
        for layer in self.layers:
            layer.select(rows) if isinstance(layer, RoomyLayer) else layer.batch_select_indices(rows)


# Rows that have ended are computed along until they are this share of the batch: leaving costs a copy of the others.
ENDED_SHARE = 0.1

NO_TOKEN = -1


@torch.inference_mode()
def draw_solutions(
    model: PreTrainedModel,
    prompts: Sequence[list[int]],
    owners: torch.Tensor,
    uniforms: torch.Tensor,
    *,
    temperature: float,
    end_ids: torch.Tensor,
) -> list[list[int]]:
    """
    Draw by inverting the cumulative distribution. The computation of a prompt is shared by its rows.

    Args:
        model ([`~transformers.PreTrainedModel`]):
            In evaluation mode.
        prompts (`Sequence[list[int]]`):
            Token ids.
        owners (`torch.Tensor` of shape `(rows,)`):
            Index of each row's prompt.
        uniforms (`torch.Tensor` of shape `(rows, max_new_tokens)`):
            In [0, 1).
        temperature (`float`):
            Above 0.
        end_ids (`torch.Tensor`):
            Tokens that end a solution.

    Returns:
        `list[list[int]]`: the tokens of each row, up to its end token or `max_new_tokens`.
    """
    device, max_new_tokens = model.device, uniforms.shape[1]
    owners, uniforms = owners.to(device), uniforms.to(device)
    ids, mask = pad_left(prompts, device)
    cache = RoomyCache(model.config)
    logits = _next_logits(model, ids, mask, (mask.cumsum(-1) - 1).clamp(min=0), cache)[owners]
    cache.select(owners)
    width, num_seen = mask.shape[1], mask[owners].sum(-1, keepdim=True)  # (rows, 1)
    mask = torch.cat([mask[owners], mask.new_ones(len(owners), max_new_tokens)], dim=1)

    tokens = torch.full(uniforms.shape, NO_TOKEN, device=device)
    rows = torch.arange(len(owners), device=device)  # that are still in the batch
    is_open = torch.ones_like(rows, dtype=torch.bool)  # that have not ended
    for place in range(max_new_tokens):
        drawn = draw_tokens(logits / temperature, uniforms[rows, place])
        tokens[rows, place] = torch.where(is_open, drawn, NO_TOKEN)
        is_open = is_open & ~torch.isin(drawn, end_ids)
        num_open = int(is_open.sum())
        if num_open == 0 or place + 1 == max_new_tokens:
            break
        if num_open <= (1 - ENDED_SHARE) * len(rows):
            kept = is_open.nonzero()[:, 0]
            cache.select(kept)
            rows, drawn, mask, num_seen, is_open = (t[kept] for t in (rows, drawn, mask, num_seen, is_open))
        logits = _next_logits(model, drawn[:, None], mask[:, : width + place + 1], num_seen + place, cache)
    return [row[: row.index(NO_TOKEN)] if NO_TOKEN in row else row for row in tokens.tolist()]


def _next_logits(
    model: PreTrainedModel, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, cache: RoomyCache
) -> torch.Tensor:
    """Logits of the next token, (rows, vocabulary), in float32."""
    output = model(
        input_ids=ids,
        attention_mask=mask,
        position_ids=positions,
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    return output.logits[:, -1].float()


def pad_left(prompts: Sequence[list[int]], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and mask, each of shape `(prompts, longest)`, filled up on the left with what the mask hides."""
    width = max(map(len, prompts))
    ids = [[ids[0]] * (width - len(ids)) + ids for ids in prompts]
    mask = [[0] * (width - len(ids)) + [1] * len(ids) for ids in prompts]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


def draw_tokens(logits: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """
    Invert the cumulative distribution.

    Args:
        logits (`torch.Tensor` of shape `(rows, vocabulary)`):
            Unnormalised log-probabilities.
        uniforms (`torch.Tensor` of shape `(rows,)`):
            In [0, 1).

    Returns:
        `torch.Tensor` of shape `(rows,)`: the first token whose cumulative probability exceeds the uniform number; never
        one of probability 0.
    """
    cumulative = logits.double().softmax(-1).cumsum(-1)  # in float32 a large vocabulary's sum would be off by 1e-3
    total = cumulative[:, -1:].contiguous()  # 1, up to rounding
    drawn = torch.searchsorted(cumulative, uniforms.to(cumulative.dtype)[:, None] * total, right=True)
    # A number just below 1 can be rounded to 1, which nothing exceeds: the last token that adds to the total then.
    return torch.minimum(drawn, torch.searchsorted(cumulative, total))[:, 0]
