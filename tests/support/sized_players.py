"""Players of round sizes."""

from transformers import LlamaConfig

from pvg_hf.check.player_sizes import PlayerSize

WEIGHTS, TRAINING = 1000 * 4, 500 * 4 + 500 * 16  # bytes; a trained weight has a gradient and two averages
SIZE = PlayerSize(
    num_parameters=1000,
    num_trained=500,
    forward_flops=1600,
    training_flops=4200,
    num_layers=2,
    hidden_size=16,
    vocab_size=50,
    cache_width=32,
    max_positions=None,
    weight_bytes=4,
    num_quantized=0,
    trained_bytes=4,
    kept_bytes=17 * 16 * 4,
    passing_bytes=0,
    is_mixed=False,
    config=LlamaConfig(
        vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, head_dim=4
    ),
)
SIZES = {"prover": SIZE, "verifier": SIZE}
