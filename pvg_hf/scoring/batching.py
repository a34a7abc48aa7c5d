"""Batches of a forward pass: how many tokens fit, and which inputs share a beginning."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from transformers import PreTrainedConfig

logger = logging.getLogger(__name__)

CPU_TOKENS = 2048  # larger batches leave the processor's cache

MAX_TOKENS = 65_536  # more do not make a GPU faster

SHARE_OF_FREE_MEMORY = 0.5

Result = TypeVar("Result")


class TokenBudget:
    """
    Runs a function over batches that stay within a number of tokens, which is halved when memory runs out.

    Args:
        tokens (`int`):
            Rows times the longest row of a batch, at most.
    """

    def __init__(self, tokens: int):
        self.tokens = tokens

    def run(
        self, lengths: Sequence[int], forward: Callable[[list[int]], Result]
    ) -> Iterator[tuple[list[int], Result]]:
        """
        Args:
            lengths (`Sequence[int]`):
                Of the rows.
            forward (`Callable[[list[int]], Result]`):
                Takes the indices of a batch.

        Yields:
            `tuple[list[int], Result]`: each batch's indices, rows of like length together, and what `forward` returned.

        Raises:
            torch.OutOfMemoryError: if a single row does not fit.
        """
        order = sorted(range(len(lengths)), key=lambda index: (lengths[index], index))
        ascending, start = [lengths[index] for index in order], 0
        while start < len(order):
            end = end_of_batch(ascending, start, self.tokens)
            try:
                result = forward(order[start:end])
            except torch.OutOfMemoryError:
                if end == start + 1:
                    raise
                result = None
            if result is None:  # outside of the handler, whose traceback holds the tensors
                self._halve((end - start) * ascending[end - 1])
                continue
            yield order[start:end], result
            start = end

    def _halve(self, tokens: int) -> None:
        self.tokens = tokens // 2
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        logger.warning("A forward of %d tokens did not fit in memory; from here on it takes %d.", tokens, self.tokens)


def choose_tokens(config: PreTrainedConfig, device: torch.device, dtype: torch.dtype) -> int:
    """
    A budget from the memory that is free: half of it over what a token takes while a layer is computed and its keys and
    values of all layers are kept, rounded down to a power of two, so that it does not change with a few megabytes.
    """
    if device.type != "cuda":
        return CPU_TOKENS
    free, _ = torch.cuda.mem_get_info(device)
    text = config.get_text_config()
    widths = 6 * text.hidden_size + 3 * text.intermediate_size + 2 * text.num_hidden_layers * text.hidden_size
    affordable = int(SHARE_OF_FREE_MEMORY * free / (widths * dtype.itemsize))
    return min(MAX_TOKENS, 1 << max(affordable.bit_length() - 1, 10))


def end_of_batch(lengths: Sequence[int], start: int, tokens_per_batch: int) -> int:
    """
    Where a batch that begins at `start` ends, so that its padded size (rows x longest) stays within `tokens_per_batch`.

    Args:
        lengths (`Sequence[int]`):
            In ascending order.
        start (`int`):
            Index of the first row; a single row that is longer than the batch is a batch of its own.
        tokens_per_batch (`int`):
            Tokens of a batch.
    """
    end = start + 1
    while end < len(lengths) and (end + 1 - start) * lengths[end] <= tokens_per_batch:
        end += 1
    return end


# Going on from a shared beginning costs a copy of its keys and values: below so many tokens it does not pay.
MIN_SHARED_TOKENS = 8

# A score is read at the last token, or at the one before it where end and padding are one token: both stay an input's own.
MIN_OWN_TOKENS = 2


@dataclass(frozen=True)
class Group:
    """
    Inputs that begin alike.

    Args:
        num_shared (`int`):
            How many tokens they have in common at their beginning.
        members (`list[int]`):
            Their indices, two or more.
    """

    num_shared: int
    members: list[int]


def group_by_beginning(inputs: Sequence[list[int]], problems: Sequence[str]) -> tuple[list[Group], list[int]]:
    """
    Args:
        inputs (`Sequence[list[int]]`):
            Token ids.
        problems (`Sequence[str]`):
            The problem of each: only inputs of one problem are compared.

    Returns:
        `tuple[list[Group], list[int]]`: groups, and the inputs that share too little.
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
    """Length of the longest common beginning that leaves every input tokens of its own."""
    first, last = min(inputs), max(inputs)  # in the order of lists all others lie between, and share what these share
    limit = max(min(map(len, inputs)) - MIN_OWN_TOKENS, 0)
    return next((place for place in range(limit) if first[place] != last[place]), limit)


def check_texts(problems: Sequence[str], solutions: Sequence[str]) -> None:
    """
    Raises:
        ValueError: for a text in place of a list of texts, or lists of different lengths.
    """
    for name, texts in (("problems", problems), ("solutions", solutions)):
        if isinstance(texts, str):
            raise ValueError(f"`{name}` is the text {texts[:80]!r}; pass a list of texts, such as [{name[:-1]}].")
    if len(problems) != len(solutions):
        raise ValueError(
            f"There are {len(problems)} problems and {len(solutions)} solutions; each solution needs its problem."
        )
