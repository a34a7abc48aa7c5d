"""Players of round sizes, on a machine of round speeds."""

from pvg_hf.estimate.player_sizes import PlayerSize
from pvg_hf.estimate.round_plans import Player
from pvg_hf.estimate.speed import Machine

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
PLAYERS = {name: Player(SIZE, Machine(flops=1e6, bandwidth=1e6, latency=1e-3)) for name in ("prover", "verifier")}
