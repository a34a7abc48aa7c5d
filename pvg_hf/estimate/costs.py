"""
Rough costs of sampling, reading and training: FLOPs over a matrix rate, bytes over a bandwidth, and a latency per layer.

The formulas are in docs/recipes.md, "What `--plan` estimates". They omit attention's quadratic part, the loading of models and all
work outside models; expect them to be right within a factor of about 3.
"""

from dataclasses import dataclass

from pvg_hf.estimate.amounts import Length
from pvg_hf.estimate.player_sizes import PlayerSize
from pvg_hf.estimate.speed import Machine

REACHED_SHARE = 0.4  # share of the matrix rate that a whole forward or backward pass reaches

OPERATIONS_PER_LAYER = 120  # overhead of a layer in transformers, in latencies of a small operation

CACHE_COPIES = 3  # for each new token, all keys and values are read, copied to a larger cache, and read by attention

ACTIVATIONS_PER_LAYER = 17  # numbers kept per token and hidden unit (Korthikanti et al. 2022, arXiv 2205.05198)


@dataclass(frozen=True)
class Work:
    """
    Estimated cost of a part of a phase.

    Args:
        seconds (`float`):
            Duration on the machine, for one process.
        memory (`float`):
            Peak bytes, without the players' weights.
    """

    seconds: float = 0.0
    memory: float = 0.0

    def __add__(self, other: "Work") -> "Work":
        """Cost of both parts, one after the other: seconds add up, and the larger peak counts."""
        return Work(self.seconds + other.seconds, max(self.memory, other.memory))

    def __mul__(self, times: float) -> "Work":
        return Work(self.seconds * times, self.memory)


def sampling(
    player: PlayerSize,
    machine: Machine,
    *,
    num_prompts: float,
    num_samples: int,
    prompts_per_batch: int,
    prompt: Length,
    solution: Length,
    max_new_tokens: int,
) -> Work:
    """
    Cost of writing `num_samples` solutions to each prompt.

    Each batch needs a forward pass over its prompts, and then one per token until its longest solution ends, each with the keys
    and values so far. Memory is for keys and values at full length, and for the logits of one token.
    """
    num_batches = -(-num_prompts // prompts_per_batch)
    num_solutions = num_prompts * num_samples
    prefill = forward_seconds(player, machine, num_prompts * prompt.high, num_batches)
    decode = forward_seconds(player, machine, num_solutions * solution.mean, num_batches * solution.high)
    cached = player.num_layers * player.cache_width * player.weight_bytes  # bytes of a token's keys and values
    mean_cache = (prompt.mean + solution.mean / 2) * cached
    caching = CACHE_COPIES * num_solutions * solution.mean * mean_cache / machine.bandwidth
    logits = 2 * 4 * player.vocab_size  # in float32, and their softmax
    rows = min(prompts_per_batch, num_prompts) * num_samples
    return Work(prefill + decode + caching, rows * ((prompt.high + max_new_tokens) * cached + logits))


def reading(player: PlayerSize, machine: Machine, *, num_texts: float, text: Length, tokens_per_batch: float) -> Work:
    """Cost of reading texts without gradients in batches of similar length, as for a verifier's scores or a KL reference."""
    tokens = num_texts * text.mean
    seconds = forward_seconds(player, machine, tokens, -(-tokens // tokens_per_batch))
    return Work(seconds, 4 * tokens_per_batch * player.hidden_size * player.weight_bytes)


def training(
    player: PlayerSize,
    machine: Machine,
    *,
    num_batches: int,
    rows: int,
    text: Length,
    num_logits: float,
    recomputes: bool,
) -> Work:
    """
    Cost of forward and backward passes over `num_batches` batches of `rows` texts.

    Args:
        num_logits (`float`):
            Number of positions of a text at which the loss needs logits; 0 for a verifier.
        recomputes (`bool`):
            Whether activations are recomputed in the backward pass instead of being stored.
    """
    # 1 forward pass, 1 for the gradients of activations, a share for the trained weights' gradients, 1 for recomputation
    passes = 2 + player.num_trained / player.num_parameters + recomputes
    seconds = passes * forward_seconds(player, machine, num_batches * rows * text.high, num_batches)
    num_kept = player.num_layers + ACTIVATIONS_PER_LAYER if recomputes else player.num_layers * ACTIVATIONS_PER_LAYER
    activations = text.high * num_kept * player.hidden_size * player.weight_bytes
    logits = 2 * 4 * num_logits * player.vocab_size  # in float32, and their gradient
    return Work(seconds, rows * (activations + logits))


def forward_seconds(player: PlayerSize, machine: Machine, tokens: float, passes: float) -> float:
    """
    Seconds of `passes` forward passes over a total of `tokens` tokens.

    A pass is limited by computation or by reading the weights, whichever takes longer; the latency of operations is added.
    """
    computing = 2 * player.num_multiplied * tokens / (REACHED_SHARE * machine.flops)
    loading = passes * player.num_multiplied * player.weight_bytes / machine.bandwidth
    starting = passes * player.num_layers * OPERATIONS_PER_LAYER * machine.latency
    return max(computing, loading) + starting
