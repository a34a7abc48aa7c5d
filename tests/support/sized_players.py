"""Players of round sizes."""

from pvg_hf.estimate.player_sizes import PlayerSize

WEIGHTS, TRAINING = 1000 * 4, 500 * 4 + 500 * 16  # bytes; a trained weight has a gradient and two averages
SIZE = PlayerSize(
    num_parameters=1000,
    num_trained=500,
    num_multiplied=800,
    num_layers=2,
    hidden_size=16,
    vocab_size=50,
    cache_width=32,
    max_positions=None,
    weight_bytes=4,
    num_quantized=0,
    trained_bytes=4,
)
SIZES = {"prover": SIZE, "verifier": SIZE}
