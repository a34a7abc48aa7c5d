"""Problems of a world as batches of tensors."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, Sampler, default_collate
from transformers import PreTrainedTokenizerBase

from pvg_hf.core.seeding import derive_rng
from pvg_hf.experimental.messages.decisions import DecisionProblems

LABELS, ROW_INDEX = "labels", "row_index"

Batch = dict[str, torch.Tensor]


class ProblemData(Dataset):
    """
    Columns of problems that are read batch by batch.

    Args:
        columns (`dict[str, torch.Tensor]`):
            Tensors of equal length: what the players see, and `labels` (0 or 1). A column `row_index` is added.
    """

    def __init__(self, columns: Batch):
        self.columns = {**columns, ROW_INDEX: torch.arange(len(columns[LABELS]))}

    @classmethod
    def of(
        cls, problems: DecisionProblems, tokenizer: PreTrainedTokenizerBase | None = None, max_length: int = 128
    ) -> "ProblemData":
        """
        Convert the problems of a world.

        Args:
            tokenizer ([`~transformers.PreTrainedTokenizerBase`], *optional*):
                Tokenizer for texts; both texts of a pair are padded to `max_length`.
            max_length (`int`, *optional*, defaults to `128`): Maximum tokens of a pair; longer ones are truncated.

        Raises:
            ValueError: if the problems are texts and there is no tokenizer.
        """
        columns = {LABELS: torch.from_numpy(problems.labels.astype(np.int64))}
        arrays = {"inputs": problems.inputs, "prover_inputs": problems.prover_inputs, "witness": problems.witness}
        columns |= {name: torch.from_numpy(value) for name, value in arrays.items() if value is not None}
        if problems.texts is not None:
            if tokenizer is None:
                raise ValueError("The problems are texts, which need transformer players and their tokenizer.")
            first, second = map(list, zip(*problems.texts))
            options = {"truncation": True, "max_length": max_length, "padding": "max_length", "return_tensors": "pt"}
            encoded = tokenizer(first, second, **options)
            columns |= {name: encoded[name] for name in ("input_ids", "attention_mask")}
        return cls(columns)

    def __len__(self) -> int:
        return len(self.columns[LABELS])

    def __getitem__(self, row: int) -> Batch:
        return {name: column[row] for name, column in self.columns.items()}

    def __getitems__(self, rows: Sequence[int]) -> Batch:
        """Return a batch, which the dataloader passes to [`collate_problems`] as it is."""
        chosen = torch.as_tensor(rows)
        return {name: column[chosen] for name, column in self.columns.items()}


def collate_problems(rows: Batch | list[dict[str, Any]]) -> Batch:
    """Return a batch of tensors, from a batch of [`ProblemData`] or from rows of any other dataset."""
    if isinstance(rows, dict):
        return rows
    return default_collate([{name: torch.as_tensor(value) for name, value in row.items()} for row in rows])


class EpochOrder(Sampler[int]):
    """Random order of rows, drawn for each epoch from a seed."""

    def __init__(self, num_rows: int, seed: int):
        self.num_rows, self.seed, self.epoch = num_rows, seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch; the dataloader calls this before each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.num_rows

    def __iter__(self) -> Iterator[int]:
        yield from epoch_order(self.num_rows, self.seed, self.epoch).tolist()


def epoch_order(num_rows: int, seed: int, epoch: int) -> np.ndarray:
    """Return the order of the rows in an epoch."""
    return derive_rng(seed, "messages", "order", epoch).permutation(num_rows)


def noise_draws(rows: torch.Tensor, num_rows: int, seed: int, resample: str, epoch: int, step: int) -> torch.Tensor:
    """
    Return the uniform draws that decide which labels flip.

    Args:
        rows: shape `(batch,)`. Row numbers.
        num_rows: Rows of the dataset.
        resample: `fixed`, `epoch` or `step`.
    Returns: `torch.Tensor` of shape `(batch,)`, in [0, 1), float64. A row's draw does not depend on the rates.
    """
    moment = {"fixed": None, "epoch": epoch, "step": step}[resample]
    return _all_draws(num_rows, seed, resample, moment)[rows.cpu()]


@lru_cache(maxsize=64)
def _all_draws(num_rows: int, seed: int, resample: str, moment: int | None) -> torch.Tensor:
    return torch.from_numpy(derive_rng(seed, "messages", "noise", resample, moment).random(num_rows))
