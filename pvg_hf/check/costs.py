"""
Rough costs of sampling, reading and training.

The formulas are in docs/recipes.md, "What `--plan` estimates". They omit attention's quadratic part, the loading of models and all
work outside models; expect times to be right within a factor of about 3.
"""

from dataclasses import dataclass, replace
from math import ceil

import torch

from pvg_hf.check.amounts import Length
from pvg_hf.check.player_sizes import PlayerSize
from pvg_hf.models.kv_cache import bytes_per_row, rows_that_fit

OPERATIONS_PER_LAYER = 120  # overhead of a layer's forward pass in transformers, in small operations

COMPILED_OPERATIONS_PER_LAYER = 27  # the same in a compiled `generate`: 11.7 ms for a token with 24 layers on an H200

ADAPTED_OPERATIONS = (
    1.55  # a layer with adapters that are not merged, relative to one without, when a token is sampled (H200)
)

# Operations that torch starts for a layer of the Llama kind: forward, backward, and forward again where activations are
# recomputed. The keys are: with adapters on all matrices; with automatic mixed precision, which adds conversions.
STARTED = {
    (False, False): (43, 89, 43),
    (False, True): (56, 108, 54),
    (True, False): (67, 115, 63),
    (True, True): (99, 147, 95),
}

CACHE_COPIES = 3  # for each new token, all keys and values are read, copied to a larger cache, and read by attention

TILE = (4096, 32768)  # tokens and words of the vocabulary whose logits TRL's GRPO computes at once

MANY_ROWS = 20  # from here on, the longest row of a batch is longer than the 95th percentile

WRITING_SHARE = (
    0.75  # of the rows in a call of a compiled `generate`, on average: a call ends when half of them have ended
)


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
    is_adapted: bool = False,
) -> Work:
    """
    Cost of writing `num_samples` solutions to each prompt, with the package's own loop.

    Each batch needs a forward pass over its prompts, and then one per token until its longest solution ends, each with the keys
    and values so far. Memory is for keys and values at full length, and for the logits of one token. `is_adapted` says
    whether adapters are not merged.
    """
    num_batches = -(-num_prompts // prompts_per_batch)
    written = num_prompts * num_samples * solution.mean
    rows = min(prompts_per_batch, num_prompts) * num_samples
    longest = solution.high if rows <= MANY_ROWS else solution.longest
    passes = forward(player, num_prompts * prompt.high + written, num_batches * (1 + longest))
    passes = replace(passes, launches=passes.launches * (ADAPTED_OPERATIONS if is_adapted else 1))
    cached = player.num_layers * player.cache_width * player.weight_bytes  # bytes of a token's keys and values
    caching = Work(traffic=CACHE_COPIES * written * (prompt.mean + solution.mean / 2) * cached)
    logits = 2 * 4 * player.vocab_size  # in float32, and their softmax
    return (passes + caching).holding(rows * ((prompt.high + max_new_tokens) * cached + logits))


def compiled_sampling(
    player: PlayerSize,
    *,
    num_rows: float,
    prompt: Length,
    solution: Length,
    max_new_tokens: int,
    free_bytes: float,
) -> Work:
    """
    Cost of writing `num_rows` solutions with a compiled `generate` and a static cache.

    As many rows as fit are in each call, and a row that has ended is replaced in the next one. Each token needs a pass over
    the weights and over the cache of all rows at full length. Compilation, about half a minute on an H200, is left out.
    """
    dtype, num_tokens = {2: torch.bfloat16, 4: torch.float32}[player.weight_bytes], round(prompt.high) + max_new_tokens
    fitting = rows_that_fit(player.config, dtype, num_tokens, int(free_bytes))
    rows = min(fitting, 1 << (max(1, ceil(num_rows)) - 1).bit_length())
    written = num_rows * solution.mean
    passes = max(solution.longest, written / (WRITING_SHARE * rows) if num_rows > rows else 0)
    cached = player.num_layers * player.cache_width * player.weight_bytes
    work = forward(player, num_rows * prompt.high + written, passes)
    return replace(
        work,
        launches=work.launches * COMPILED_OPERATIONS_PER_LAYER / OPERATIONS_PER_LAYER,
        traffic=work.traffic + passes * rows * num_tokens * cached,
        memory=rows * bytes_per_row(player.config, dtype, num_tokens),
    )


def reading(player: PlayerSize, *, num_texts: float, text: Length, tokens_per_batch: float) -> Work:
    """Cost of reading texts without gradients in batches of similar length, as for a verifier's scores or a KL reference."""
    tokens = num_texts * text.mean
    activations = 4 * tokens_per_batch * player.hidden_size * player.weight_bytes
    return forward(player, tokens, -(-tokens // tokens_per_batch)).holding(activations)


def training(
    player: PlayerSize,
    *,
    num_batches: int,
    rows: int,
    text: Length,
    num_logits: float,
    recomputes: bool,
    is_tiled: bool = False,
) -> Work:
    """
    Cost of forward and backward passes over `num_batches` batches of `rows` texts.

    Args:
        num_logits (`float`):
            Number of positions of a text at which the loss needs logits; 0 for a verifier.
        recomputes (`bool`):
            Whether activations are recomputed in the backward pass instead of being stored.
        is_tiled (`bool`, defaults to `False`):
            Whether the loss computes logits in tiles, as GRPO's, and never holds all of them.
    """
    # 1 forward pass, 1 for the gradients of activations, a share for the trained weights' gradients, 1 for recomputation
    passes = 2 + player.num_trained / player.num_parameters + recomputes
    work = forward(player, num_batches * rows * text.high, num_batches)
    ahead, back, again = STARTED[player.is_adapted, player.is_mixed]
    started = (ahead + back + again * recomputes) / STARTED[False, False][0]
    inputs = (
        player.num_layers * player.hidden_size * player.weight_bytes
    )  # of the layers, from which they are recomputed
    kept = inputs + player.kept_bytes if recomputes else player.num_layers * player.kept_bytes
    logits = 2 * 4 * rows * num_logits * player.vocab_size  # in float32, and their gradient
    if is_tiled:
        logits = 4 * min(rows * num_logits, TILE[0]) * min(player.vocab_size, TILE[1])
    return Work(
        flops=work.flops * passes,
        traffic=work.traffic * passes,
        launches=work.launches * started,
        memory=rows * text.high * (kept + player.passing_bytes) + logits,
    )
