import pytest
import torch
from transformers import DynamicCache, LlamaConfig, MistralConfig
from transformers.cache_utils import DynamicLayer

from pvg_hf.sampling.drawing import ROOM, RoomyCache, RoomyLayer


def _states(num_tokens: int, rows: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(rows, 2, num_tokens, 4), torch.randn(rows, 2, num_tokens, 4)


def test_the_cache_holds_what_a_dynamic_cache_does():
    torch.manual_seed(0)
    config = LlamaConfig(num_hidden_layers=2)
    roomy, plain = RoomyCache(config), DynamicCache(config=config)
    rows = 3
    for num_tokens in (5, 1, 1, ROOM, 1, 2):  # a prompt, single tokens, more than fit into the room
        for layer in range(2):
            keys, values = _states(num_tokens, rows)
            found, expected = roomy.update(keys, values, layer), plain.update(keys, values, layer)
            assert all(mine.equal(other) for mine, other in zip(found, expected, strict=True))
        assert roomy.get_seq_length() == plain.get_seq_length()
        kept = torch.tensor([0, 2, 2])  # rows leave, and are repeated
        roomy.select(kept)
        for layer in plain.layers:
            layer.batch_select_indices(kept)
    assert roomy.layers[1].keys.equal(plain.layers[1].keys)


def test_a_token_is_written_in_place():
    layer = RoomyLayer()
    layer.update(*_states(4))
    place = layer.keys.data_ptr()
    layer.update(*_states(1))
    assert layer.keys.data_ptr() == place
    assert layer.keys.shape == (3, 2, 5, 4)


def test_layers_with_a_window_keep_transformers_cache():
    cache = RoomyCache(MistralConfig(num_hidden_layers=2, sliding_window=4))
    assert not any(isinstance(layer, RoomyLayer) for layer in cache.layers)
    assert all(isinstance(layer, DynamicLayer) for layer in cache.layers)


@pytest.mark.parametrize("num_tokens", [6, ROOM + 9])
def test_layers_with_a_window_are_selected(num_tokens):
    cache = RoomyCache(MistralConfig(num_hidden_layers=1, sliding_window=4))
    keys, values = _states(num_tokens)
    cache.update(keys, values, 0)
    held = cache.layers[0].keys
    cache.select(torch.tensor([2, 0]))
    assert cache.layers[0].keys.equal(held[[2, 0]])
