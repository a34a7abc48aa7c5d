"""Sizes of players, counted by hand."""

from pvg_hf.check.player_sizes import read_player_size


def test_sizes_of_a_llama_by_hand(recipe_of, hardware, tokenizer):
    vocab, hidden, inner, layers = len(tokenizer), 32, 48, 2
    layer = 4 * hidden * hidden + 3 * hidden * inner + 2 * hidden  # attention, MLP, two norms
    body = layers * layer + hidden  # and the last norm
    prover = read_player_size(recipe_of().prover, "prover", hardware)
    assert prover.num_parameters == prover.num_trained == vocab * hidden + body
    assert prover.num_multiplied == prover.num_parameters, "the input embedding is the head too"
    verifier = read_player_size(recipe_of().verifier, "verifier", hardware)
    assert verifier.num_parameters == vocab * hidden + body + hidden  # and a head of one logit
    assert verifier.num_multiplied == body + hidden, "the input embedding only looks up"
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
