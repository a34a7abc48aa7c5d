"""
Rough costs of sampling, reading and training.

The formulas are in docs/recipes.md, "What `--plan` estimates". They omit attention's quadratic part, the loading of models and all
work outside models; expect times to be right within a factor of about 3.
"""

from dataclasses import dataclass, replace

from pvg_hf.estimate.amounts import Length
from pvg_hf.estimate.player_sizes import PlayerSize

OPERATIONS_PER_LAYER = 120  # overhead of a layer in transformers, in small operations

CACHE_COPIES = 3  # for each new token, all keys and values are read, copied to a larger cache, and read by attention

ACTIVATIONS_PER_LAYER = 17  # numbers kept per token and hidden unit (Korthikanti et al. 2022, arXiv 2205.05198)


@dataclass(frozen=True)
class Work:
    """Estimated cost of a part of a phase, for one process; `Machine.seconds` is its duration."""

    flops: float = 0.0  # floating-point operations in matrix products
    traffic: float = 0.0  # bytes of weights, keys and values that are read
    launches: float = 0.0  # small operations that are started one after the other
    memory: float = 0.0  # peak bytes, without the players' weights

    def __add__(self, other: "Work") -> "Work":
        """Cost of both parts, one after the other: the larger peak counts."""
        sums = (self.flops + other.flops, self.traffic + other.traffic, self.launches + other.launches)
        return Work(*sums, max(self.memory, other.memory))

    def __mul__(self, times: float) -> "Work":
        return Work(self.flops * times, self.traffic * times, self.launches * times, self.memory)

    def holding(self, num_bytes: float) -> "Work":
        """Return the same work with `num_bytes` more in memory all the time, e.g. weights."""
        return replace(self, memory=self.memory + num_bytes)


def forward(player: PlayerSize, tokens: float, passes: float) -> Work:
    """Cost of `passes` forward passes over a total of `tokens` tokens, without its memory."""
    return Work(
        flops=2 * player.num_multiplied * tokens,
        traffic=passes * player.num_multiplied * player.weight_bytes,
        launches=passes * player.num_layers * OPERATIONS_PER_LAYER,
    )


def sampling(
    player: PlayerSize,
    *,
    num_prompts: float,
    num_samples: int,
    prompts_per_batch: float,
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
    written = num_prompts * num_samples * solution.mean
    passes = forward(player, num_prompts * prompt.high + written, num_batches * (1 + solution.high))
    cached = player.num_layers * player.cache_width * player.weight_bytes  # bytes of a token's keys and values
    caching = Work(traffic=CACHE_COPIES * written * (prompt.mean + solution.mean / 2) * cached)
    logits = 2 * 4 * player.vocab_size  # in float32, and their softmax
    rows = min(prompts_per_batch, num_prompts) * num_samples
    return (passes + caching).holding(rows * ((prompt.high + max_new_tokens) * cached + logits))


def reading(player: PlayerSize, *, num_texts: float, text: Length, tokens_per_batch: float) -> Work:
    """Cost of reading texts without gradients in batches of similar length, as for a verifier's scores or a KL reference."""
    tokens = num_texts * text.mean
    activations = 4 * tokens_per_batch * player.hidden_size * player.weight_bytes
    return forward(player, tokens, -(-tokens // tokens_per_batch)).holding(activations)


def training(
    player: PlayerSize, *, num_batches: int, rows: int, text: Length, num_logits: float, recomputes: bool
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
    num_kept = player.num_layers + ACTIVATIONS_PER_LAYER if recomputes else player.num_layers * ACTIVATIONS_PER_LAYER
    activations = text.high * num_kept * player.hidden_size * player.weight_bytes
    logits = 2 * 4 * num_logits * player.vocab_size  # in float32, and their gradient
    return (forward(player, num_batches * rows * text.high, num_batches) * passes).holding(
        rows * (activations + logits)
    )
