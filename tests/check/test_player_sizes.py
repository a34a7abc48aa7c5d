"""Sizes of players and the memory that they take, counted by hand."""

from trl.kernels import chunked_logprob
from trl.trainer import utils as trainer_utils

from pvg_hf.check.player_sizes import TILE, read_player_size
from tests.support.sized_players import SIZE


def test_sizes_of_a_llama_by_hand(recipe_of, hardware, tokenizer):
    vocab, hidden, inner, layers = len(tokenizer), 32, 48, 2
    layer = 4 * hidden * hidden + 3 * hidden * inner + 2 * hidden  # attention, MLP, two norms
    body = layers * layer + hidden  # and the last norm
    prover = read_player_size(recipe_of().prover, "prover", hardware)
    assert prover.num_parameters == prover.num_trained == vocab * hidden + body
    assert prover.forward_flops == 2 * prover.num_parameters, "the input embedding is the head too"
    verifier = read_player_size(recipe_of().verifier, "verifier", hardware)
    assert verifier.num_parameters == vocab * hidden + body + hidden  # and a head of one logit
    assert verifier.forward_flops == 2 * (body + hidden), "the input embedding only looks up"
    assert (verifier.num_layers, verifier.hidden_size, verifier.vocab_size) == (layers, hidden, vocab)
    assert verifier.max_positions == 256
    assert verifier.training_bytes == 4 * 4 * verifier.num_parameters  # float32: weight, gradient, two averages


def test_sizes_of_adapters_by_hand(recipe_of, hardware):
    plain = read_player_size(recipe_of().prover, "prover", hardware)
    prover = read_player_size(recipe_of("prover.lora={r: 2}").prover, "prover", hardware)
    # rank 2: q, k, v, o of 32 x 32; gate, up of 32 x 48; down of 48 x 32; in two layers
    adapters = 2 * (4 * 2 * (32 + 32) + 3 * 2 * (32 + 48))
    assert prover.num_trained == adapters
    assert prover.num_parameters == plain.num_parameters + adapters
    assert prover.training_bytes == 4 * plain.num_parameters + 16 * adapters
    verifier = read_player_size(recipe_of("verifier.lora={r: 2}").verifier, "verifier", hardware)
    assert verifier.num_trained == adapters + 32, "the head is trained too"


def test_sizes_of_a_new_model_with_shared_keys_and_values(recipe_of, hardware):
    config = (
        "{hidden_size: 64, num_hidden_layers: 1, num_attention_heads: 8, num_key_value_heads: 2, intermediate_size: 8}"
    )
    recipe = recipe_of(f"prover.scratch={{vocab_size: 300, config: {config}}}")
    size = read_player_size(recipe.prover, "prover", hardware)
    assert size.vocab_size == 300
    assert size.cache_width == 2 * 2 * 8  # keys and values, two heads of 64 / 8


def test_a_backward_pass_keeps_activations_and_logits():
    kept = SIZE.backward_bytes(4, 20, num_logits=5, recomputes=False)
    assert kept == 4 * (20 * 2 * 17 * 16 * 4 + 8 * 5 * 50)
    again = SIZE.backward_bytes(4, 20, num_logits=5, recomputes=True)
    assert again == 4 * (20 * (2 + 17) * 16 * 4 + 8 * 5 * 50)


def test_tiles_of_logits_are_those_of_trl():
    assert TILE == (chunked_logprob.TOKEN_CHUNK_SIZE, trainer_utils._CHUNKED_LOGPROB_CHUNK_SIZE)
    tiled, whole = (
        SIZE.backward_bytes(1000, 20, num_logits=5, recomputes=False, is_tiled=is_tiled) for is_tiled in (True, False)
    )
    assert whole - tiled == 8 * 5000 * 50 - 4 * 4096 * 50


def test_the_loop_holds_keys_values_and_logits():
    cached = 2 * 32 * 4  # bytes of a token in both layers
    assert SIZE.loop_bytes(6, 12 + 20) == 6 * ((12 + 20) * cached + 8 * 50)
