"""Resolves `micro_batch_size: auto` and `gradient_checkpointing: auto` of a phase's learner."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from trl import GRPOConfig

from pvg_hf.check.phase_costs import Amounts, Sizes, TextLengths, peak_memory
from pvg_hf.config import Recipe
from pvg_hf.config.player_sections import PlayerConfig, ProverConfig

LEARNERS = ("verifier", "prover")  # phases that train the player of their name in steps

# Of a GPU's memory; the rest is for CUDA itself, fragmentation, and the error of the estimate.
USED_SHARE = 0.85

# Of a machine's memory without a GPU, which other programs use, too: a process that exceeds it is killed.
USED_SHARE_OF_MACHINE = 0.6

BUSY_TEXTS = 8  # texts at once; with fewer, a GPU waits for Python, which costs more than to compute activations twice


def fit_to_memory(amounts: Amounts, sizes: Sizes, phase: str, *, most: int | None = None) -> Recipe:
    """
    Resolve what the learner of a phase leaves to `auto`.

    The micro-batch is the largest power of two that divides a process's rows of a step, or all of them, with an
    estimated peak within `USED_SHARE` of the memory for texts of the greatest length. Activations are recomputed only
    if fewer than `BUSY_TEXTS` texts would fit otherwise; on a CPU, only if not even one does. Micro-batches of more
    than `most` rows, if given, ran out of memory. In phases without a learner, the recipe stays as it is.
    """
    config = amounts.recipe.player(phase) if phase in LEARNERS else None
    if config is None or "auto" not in (config.micro_batch_size, config.gradient_checkpointing):
        return amounts.recipe
    longest = replace(amounts, lengths=_longest(amounts))
    share = USED_SHARE if amounts.hardware.has_gpu else USED_SHARE_OF_MACHINE / amounts.num_processes
    available = share * amounts.memory * (1 - _vllm_share(amounts.recipe.prover) if phase == "prover" else 1)
    choices = list(_choices(amounts, phase, most))
    for settings in choices:
        recipe = _with(amounts.recipe, phase, settings)
        if peak_memory(phase, replace(longest, recipe=recipe), sizes) <= available:
            return recipe
    return _with(amounts.recipe, phase, choices[-1])


def _choices(amounts: Amounts, player: str, most: int | None) -> Iterator[dict[str, Any]]:
    """List the settings that may be taken, best first."""
    recipe, config = amounts.recipe, amounts.recipe.player(player)
    share = config.rows_per_step // amounts.num_processes
    sizes = _sizes(config, share, share if most is None else most)
    texts = 2 if player == "verifier" and recipe.verifier.traits.learns_from_pairs else 1  # of a row
    wanted = config.gradient_checkpointing
    if wanted != "auto":
        yield from ({"micro_batch_size": size, "gradient_checkpointing": wanted} for size in sizes)
        return
    fewest = BUSY_TEXTS if amounts.hardware.has_gpu else 1
    for size in sizes:
        if size == share or size * texts >= fewest:
            yield {"micro_batch_size": size, "gradient_checkpointing": False}
    yield from ({"micro_batch_size": size, "gradient_checkpointing": True} for size in sizes)


def _sizes(config: PlayerConfig, share: int, most: int) -> list[int]:
    """List the sizes of a micro-batch that may be taken, largest first."""
    if config.micro_batch_size != "auto" or config.needs_whole_steps:
        return [config.rows_at_once(share)]
    powers = [1 << power for power in range(share.bit_length()) if share % (1 << power) == 0]
    return [size for size in sorted({share, *powers}, reverse=True) if size <= most] or [1]


def _with(recipe: Recipe, player: str, settings: dict[str, Any]) -> Recipe:
    changed: dict[str, Any] = {player: replace(recipe.player(player), **settings)}
    return replace(recipe, **changed)


def _vllm_share(prover: ProverConfig) -> float:
    """Share of the memory that vLLM takes in the prover's process: each training starts an engine of its own."""
    if prover.generation != "vllm_colocate":
        return 0.0
    of_engine = prover.trainer.get("vllm_gpu_memory_utilization", GRPOConfig.vllm_gpu_memory_utilization)
    return min(1.0, of_engine * prover.num_trainings)


def _longest(amounts: Amounts) -> TextLengths:
    """Lengths with batches that are padded to the longest solution that a prover can write."""
    lengths, most = amounts.lengths, amounts.recipe.prover.max_completion_length
    written = most - lengths.solution.high
    read = min(lengths.verifier_input.high + max(0, written), amounts.recipe.verifier.max_length)
    return replace(
        lengths,
        solution=replace(lengths.solution, high=most, longest=most),
        verifier_input=replace(lengths.verifier_input, high=read),
    )
