"""Micro-batches of pairs: those of a step are of like length, and its loss does not depend on them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import torch
from accelerate.data_loader import BatchSamplerShard, DataLoaderShard
from datasets import Dataset
from torch.utils.data import Sampler

_STEP_COLUMNS = (
    "keys",
    "given_labels",
    "margin",
)  # tensors of a batch on which a pair's loss depends, besides its scores


class SortedStepSampler(Sampler[int]):
    """
    Sorts the pairs of each optimiser step by their number of tokens, longest first.

    The pairs of a step stay the same. Those of a micro-batch, and of the processes at any moment, are then of like
    length, and need little padding.
    """

    def __init__(self, order: Sampler[int], dataset: Dataset, step_size: int):
        self.order = order
        self.dataset = dataset.select_columns(["chosen_ids", "rejected_ids"])
        self.step_size = step_size

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch; the dataloader calls this before each epoch."""
        if hasattr(self.order, "set_epoch"):  # torch's own samplers do not depend on it
            self.order.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self.order)  # type: ignore[arg-type]  # torch declares no length, and all that it has here have one

    def __iter__(self) -> Iterator[int]:
        rows = iter(self.order)
        while step := list(islice(rows, self.step_size)):
            pairs = self.dataset[step]
            lengths = [max(map(len, pair)) for pair in zip(pairs["chosen_ids"], pairs["rejected_ids"], strict=True)]
            yield from (row for _, row in sorted(zip(lengths, step, strict=True), key=lambda pair: -pair[0]))


def sort_steps(dataloader: DataLoaderShard, dataset: Dataset, step_size: int) -> None:
    """
    Sort the pairs of each step by length, as [`SortedStepSampler`] does with the order that accelerate has prepared.

    All processes have the same order, and each takes its own batches of it.
    """
    batches = dataloader.batch_sampler
    if isinstance(batches, BatchSamplerShard):
        batches = batches.batch_sampler
    dataloader.set_sampler(SortedStepSampler(batches.sampler, dataset, step_size))


def mark_step(batches: Sequence[dict[str, Any]]) -> None:
    """
    Add to each micro-batch of a step what its part of the step's loss depends on: `step`, of all pairs of the step.
    """
    columns = [name for name in _STEP_COLUMNS if name in batches[0]]
    whole = {name: torch.cat([batch[name] for batch in batches]) for name in columns}
    start = 0
    for batch in batches:
        batch["step"] = {**whole, "start": start}
        start += len(batch["row_index"])


def loss_of_part(
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    scores: tuple[torch.Tensor, torch.Tensor],
    step: Mapping[str, Any],
    num_parts: int,
) -> torch.Tensor:
    """
    Return a micro-batch's part of the loss of a step.

    The loss must be a sum of terms with one pair each, whose weights do not depend on the scores. A micro-batch then
    has the gradient that it has in the whole step if all other scores are constants, here 0, whatever the number of
    its pairs and of ties.

    Args:
        loss: `(chosen, rejected) -> loss` of all pairs of the step.
        scores: Scores of the micro-batch's chosen and rejected solutions.
    Returns: scalar. The mean over the micro-batches is the loss of the step.
    """
    zeros, start = scores[0].new_zeros(len(step["keys"])), step["start"]
    filled = [torch.cat([zeros[:start], part, zeros[start + len(part) :]]) for part in scores]
    return num_parts * loss(*filled) - (num_parts - 1) * loss(zeros, zeros)
