"""Keys and values of what was written so far, in buffers with room for what comes."""

import torch
from transformers import DynamicCache, PreTrainedConfig
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
                _with_room(old, new, end + ROOM) for old, new in ((self.keys, key_states), (self.values, value_states))
            )
        for buffer, new in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[:, :, start:end] = new
        self.keys, self.values = (buffer[:, :, :end] for buffer in self._buffers)
        return self.keys, self.values

    def select(self, rows: torch.Tensor) -> None:
        """Keep `rows` of the batch, in this order and as often as they come."""
        self.batch_select_indices(rows)
        self._buffers = None


def _with_room(old: torch.Tensor, new: torch.Tensor, num_tokens: int) -> torch.Tensor:
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
