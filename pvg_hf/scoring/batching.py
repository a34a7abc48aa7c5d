"""Batches for forward passes: how many tokens fit in memory, and which inputs share a prefix."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from transformers import PreTrainedConfig

from pvg_hf.core.stop_checks import stop_if_asked
from pvg_hf.models.hardware import free_bytes

logger = logging.getLogger(__name__)

CPU_TOKENS = 2048  # larger batches exceed the processor's cache

MAX_TOKENS = 65_536  # larger batches do not run faster on a GPU

SHARE_OF_FREE_MEMORY = 0.5

# Continuing from a shared prefix copies its keys and values, which is not worth it for fewer tokens.
MIN_SHARED_TOKENS = 8

# The score is read at the last token, or one earlier if end and padding are the same token. Both must not be shared.
MIN_OWN_TOKENS = 2

Result = TypeVar("Result")


class TokenBudget:
    """Runs a function over batches with a limited number of tokens; the limit is halved when memory runs out."""

    def __init__(self, tokens: int):
        self.tokens = tokens

    def run(
        self, lengths: Sequence[int], forward: Callable[[list[int]], Result]
    ) -> Iterator[tuple[list[int], Result]]:
        """
        Run `forward` over all rows in batches.

        Args:
            forward: Function of the indices of a batch.
        Yields: the indices of each batch of rows of similar length, and the result of `forward`.
        Raises `torch.OutOfMemoryError` if a single row does not fit.
        """
        order = sorted(range(len(lengths)), key=lambda index: (lengths[index], index))
        ascending, start = [lengths[index] for index in order], 0
        while start < len(order):
            stop_if_asked()
            end = end_of_batch(ascending, start, self.tokens)
            try:
                result = forward(order[start:end])
            except torch.OutOfMemoryError:
                if end == start + 1:
                    raise
                result = None
            if result is None:  # outside the handler, because its traceback keeps the tensors alive
                self._halve((end - start) * ascending[end - 1])
                continue
            yield order[start:end], result
            start = end

    def _halve(self, tokens: int) -> None:
        self.tokens = tokens // 2
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        logger.warning("A forward pass of %d tokens did not fit in memory; using %d from now on.", tokens, self.tokens)


def choose_tokens(config: PreTrainedConfig, device: torch.device, dtype: torch.dtype) -> int:
    """
    Choose the number of tokens per forward pass from the free memory.

    It is half of the free memory over the memory that a token takes: the activations of one layer, and the keys and
    values of all layers. It is rounded down to a power of two, so that it does not change with a few megabytes.
    """
    if device.type != "cuda":
        return CPU_TOKENS
    text = config.get_text_config()
    # Values per token: activations of one layer (attention and MLP), and keys and values of all layers.
    widths = 6 * text.hidden_size + 3 * text.intermediate_size + 2 * text.num_hidden_layers * text.hidden_size
    affordable = int(SHARE_OF_FREE_MEMORY * free_bytes(device) / (widths * dtype.itemsize))
    return min(MAX_TOKENS, 1 << max(affordable.bit_length() - 1, 10))


def end_of_batch(lengths: Sequence[int], start: int, tokens_per_batch: int) -> int:
    """
    Return the end of a batch that begins at `start`, such that its padded size (rows x longest) is at most
    `tokens_per_batch`.

    Args:
        lengths: Lengths of all rows, in ascending order.
        start: Index of the first row. A single row that is longer than the limit forms its own batch.
        tokens_per_batch: Maximum number of tokens of a batch.
    """
    end = start + 1
    while end < len(lengths) and (end + 1 - start) * lengths[end] <= tokens_per_batch:
        end += 1
    return end


@dataclass(frozen=True)
class Group:
    """
    Inputs with a common prefix.

    Args:
        members: Indices of the inputs, at least two.
    """

    num_shared: int
    members: list[int]


def group_by_beginning(inputs: Sequence[list[int]], problems: Sequence[str]) -> tuple[list[Group], list[int]]:
    """
    Group inputs of the same problem that share a prefix.

    Args:
        problems: Problem of each input; inputs of different problems are not compared.
    Returns: groups, and the indices of the inputs with too short a common prefix.
    """
    by_problem: dict[str, list[int]] = defaultdict(list)
    for index, problem in enumerate(problems):
        by_problem[problem].append(index)
    groups, alone = [], []
    for members in by_problem.values():
        shared = num_shared([inputs[index] for index in members])
        if len(members) > 1 and shared >= MIN_SHARED_TOKENS:
            groups.append(Group(shared, members))
        else:
            alone += members
    return groups, alone


def num_shared(inputs: Sequence[list[int]]) -> int:
    """Length of the longest common prefix that leaves each input at least `MIN_OWN_TOKENS` tokens."""
    first, last = min(inputs), max(inputs)  # lexicographic: all others are between these, and share the same prefix
    limit = max(min(map(len, inputs)) - MIN_OWN_TOKENS, 0)
    return next((place for place in range(limit) if first[place] != last[place]), limit)
