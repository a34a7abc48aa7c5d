"""Draws completions token by token, with separate uniform random numbers for each row."""

from collections.abc import Sequence
from typing import Any

import torch
from peft import PeftModel
from torch.nn import functional
from transformers import DynamicCache, LogitsProcessorList, PreTrainedConfig, PreTrainedModel
from transformers.cache_utils import DynamicLayer
from transformers.generation import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from pvg_hf.core.stop_checks import stop_if_asked

ROOM = 64  # spare tokens of a new buffer


class RoomyLayer(DynamicLayer):
    """
    Keys and values of a layer, in buffers with spare capacity: a new token is written in place, not copied with the
    rest.
    """

    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self):
        super().__init__()
        self._buffers: tuple[torch.Tensor, ...] = ()  # two, each (rows, heads, capacity in tokens, width)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args, **kwargs
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append `key_states` and `value_states`, `(rows, heads, new tokens, width)`; return those of all tokens."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start = self.get_seq_length()
        end = start + key_states.shape[-2]
        if not self._buffers or self._buffers[0].shape[-2] < end:
            every_row = torch.arange(len(key_states), device=self.device)
            self._buffers = tuple(
                _move(old, every_row, like=new, capacity=end + ROOM)
                for old, new in ((self.keys, key_states), (self.values, value_states))
            )
        for buffer, new in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[:, :, start:end] = new
        self.keys, self.values = (buffer[:, :, :end] for buffer in self._buffers)
        return self.keys, self.values

    def select(self, rows: torch.Tensor) -> None:
        """Keep `rows` of the batch, in this order and with repetitions."""
        length = self.get_seq_length()
        states = (self.keys, self.values)
        self._buffers = tuple(_move(old, rows, like=old, capacity=length + ROOM) for old in states)
        self.keys, self.values = (buffer[:, :, :length] for buffer in self._buffers)


def _move(old: torch.Tensor, rows: torch.Tensor, *, like: torch.Tensor, capacity: int) -> torch.Tensor:
    """
    Return a buffer for `capacity` tokens, with heads, width and type of `like`, that begins with `rows` of `old`.
    """
    buffer = like.new_empty(len(rows), like.shape[1], capacity, like.shape[3])
    if old.numel():
        torch.index_select(old, 0, rows, out=buffer[:, :, : old.shape[-2]])
    return buffer


class RoomyCache(DynamicCache):
    """
    Transformers' dynamic cache with a [`RoomyLayer`] for each layer that keeps all tokens.

    Layers with a sliding window are left unchanged.
    """

    layers: list[Any]  # of several kinds, which share no type

    def __init__(self, config: PreTrainedConfig):
        super().__init__(config=config)
        self.layers = [RoomyLayer() if type(layer) is DynamicLayer else layer for layer in self.layers]

    def select(self, rows: torch.Tensor) -> None:
        """Keep `rows` of the batch, in this order and with repetitions."""
        for layer in self.layers:
            layer.select(rows) if isinstance(layer, RoomyLayer) else layer.batch_select_indices(rows)


# Finished rows stay in the batch until they are this share of it, because removing them copies the cache of the
# others.
ENDED_SHARE = 0.1

NO_TOKEN = -1


@torch.inference_mode()
def draw_solutions(
    model: PreTrainedModel | PeftModel,
    prompts: Sequence[list[int]],
    owners: torch.Tensor,
    uniforms: torch.Tensor,
    *,
    warpers: LogitsProcessorList,
    end_ids: torch.Tensor,
) -> tuple[list[list[int]], list[list[float]]]:
    """
    Draw completions by inverse transform sampling. Rows of the same prompt share its forward pass.

    Args:
        owners: shape `(rows,)`. Index of each row's prompt.
        uniforms: shape `(rows, max_new_tokens)`. Uniform random numbers in [0, 1), one per token.
        warpers: Functions of the tokens so far and the logits, such as a temperature, that give the logits to draw
            from.
        end_ids: Tokens that end a completion.
    Returns: the tokens of each row up to its end token, or `max_new_tokens` of them, and their log-probabilities.
    """
    device, max_new_tokens = model.device, uniforms.shape[1]
    owners, uniforms = owners.to(device), uniforms.to(device)
    ids, mask = pad_left(prompts, device)
    cache = RoomyCache(model.config)
    # Positions count the tokens that the mask shows, since prompts are padded on the left.
    logits = _next_logits(model, ids, mask, (mask.cumsum(-1) - 1).clamp(min=0), cache)[owners]
    cache.select(owners)
    width, num_seen = mask.shape[1], mask[owners].sum(-1, keepdim=True)  # (rows, 1)
    mask = torch.cat([mask[owners], mask.new_ones(len(owners), max_new_tokens)], dim=1)

    texts = torch.cat([ids[owners], torch.full(uniforms.shape, NO_TOKEN, device=device)], dim=1)
    tokens, logprobs = texts[:, width:], torch.zeros(uniforms.shape, device=device)
    rows = torch.arange(len(owners), device=device)  # indices of the rows still in the batch
    is_open = torch.ones_like(rows, dtype=torch.bool)  # whether each of them is unfinished
    for place in range(max_new_tokens):
        stop_if_asked()
        seen: Any = texts[rows, : width + place].clamp(min=0)
        scores = warpers(seen, logits)
        drawn = draw_tokens(scores, uniforms[rows, place])
        tokens[rows, place] = torch.where(is_open, drawn, NO_TOKEN)
        logprobs[rows, place] = drawn_logprobs(scores, drawn)
        is_open = is_open & ~torch.isin(drawn, end_ids)
        num_open = int(is_open.sum())
        if num_open == 0 or place + 1 == max_new_tokens:
            break
        if num_open <= (1 - ENDED_SHARE) * len(rows):
            kept = is_open.nonzero()[:, 0]
            cache.select(kept)
            rows, drawn, mask, num_seen, is_open = (t[kept] for t in (rows, drawn, mask, num_seen, is_open))
        logits = _next_logits(model, drawn[:, None], mask[:, : width + place + 1], num_seen + place, cache)
    lengths = (tokens != NO_TOKEN).sum(-1).tolist()
    return _cut(tokens, lengths), _cut(logprobs, lengths)


def _cut(values: torch.Tensor, lengths: list[int]) -> list[list]:
    return [row[:length] for row, length in zip(values.tolist(), lengths, strict=True)]


def _next_logits(
    model: PreTrainedModel | PeftModel,
    ids: torch.Tensor,
    mask: torch.Tensor,
    positions: torch.Tensor,
    cache: RoomyCache,
) -> torch.Tensor:
    """Return the logits of the next token, (rows, vocabulary), in float32."""
    output = model(
        input_ids=ids,
        attention_mask=mask,
        position_ids=positions,
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    return output.logits[:, -1].float()


def pad_left(
    prompts: Sequence[list[int]], device: torch.device, *, multiple: int = 1
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return token ids and mask, each of shape `(prompts, width)`, padded on the left to a multiple of tokens."""
    width = -(-max(map(len, prompts)) // multiple) * multiple
    ids = [[ids[0]] * (width - len(ids)) + ids for ids in prompts]  # any valid id will do, since the mask hides it
    mask = [[0] * (width - len(ids)) + [1] * len(ids) for ids in prompts]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


BLOCK = 512  # tokens of the vocabulary that are summed before the others are searched

EXACT_VOCABULARY = 2**14  # up to this size, the distribution is computed in float64


def draw_tokens(logits: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """
    Draw tokens by inverting the cumulative distribution.

    Args:
        logits: shape `(rows, vocabulary)`. Unnormalised log-probabilities, in float32.
        uniforms: shape `(rows,)`. Uniform random numbers in [0, 1).
    Returns: shape `(rows,)`; the first token with a cumulative probability above the uniform number. A token of
        probability 0 is never drawn.
    """
    if logits.shape[-1] <= EXACT_VOCABULARY:
        cumulative = logits.double().softmax(-1).cumsum(-1)  # float32 sums over a large vocabulary are off by 1e-3
        return _search(cumulative, uniforms.to(cumulative.dtype)[:, None] * cumulative[:, -1:])[:, 0]
    # First the block that contains the number, and then the token within it: float64 for every token would take most
    # of the time on a GPU.
    weights = functional.pad(logits.softmax(-1), (0, -logits.shape[-1] % BLOCK)).unflatten(-1, (-1, BLOCK))
    cumulative = weights.sum(-1, dtype=torch.float64).cumsum(-1)  # (rows, blocks)
    wanted = uniforms.to(cumulative.dtype)[:, None] * cumulative[:, -1:]
    block = _search(cumulative, wanted)  # (rows, 1)
    before = functional.pad(cumulative, (1, 0)).gather(1, block)
    within = weights[torch.arange(len(block), device=block.device), block[:, 0]].double().cumsum(-1)  # (rows, BLOCK)
    return (block * BLOCK + _search(within, wanted - before))[:, 0]


def drawn_logprobs(logits: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:
    """Return the log-probabilities of drawn tokens, `(rows,)`, from unnormalised ones, `(rows, vocabulary)`."""
    return logits.gather(1, drawn[:, None])[:, 0] - logits.logsumexp(-1)


def _search(cumulative: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Return the first index whose sum is above `wanted`, `(rows, 1)`, or the last one that adds to the sum."""
    found = torch.searchsorted(cumulative, wanted, right=True)
    # A number just below the total may be rounded to it, which no sum exceeds.
    return torch.minimum(found, torch.searchsorted(cumulative, cumulative[:, -1:].contiguous()))


def make_warpers(
    *, temperature: float, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0, repetition_penalty: float = 1.0
) -> LogitsProcessorList:
    """
    Return transformers' functions of the logits for these settings, in the order in which `generate` applies them.

    Raises `ValueError` for a setting outside its range.
    """
    warpers = LogitsProcessorList()
    if repetition_penalty != 1.0:
        warpers.append(RepetitionPenaltyLogitsProcessor(float(repetition_penalty)))
    warpers.append(TemperatureLogitsWarper(float(temperature)))
    if top_k:
        warpers.append(TopKLogitsWarper(top_k))
    if top_p < 1.0:
        warpers.append(TopPLogitsWarper(top_p))
    if min_p:
        warpers.append(MinPLogitsWarper(min_p))
    return warpers
