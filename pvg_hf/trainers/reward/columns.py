"""The columns that a pair brings to its trainer beside its tokens."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import Any

import numpy as np
import torch
from datasets import Dataset, IterableDataset
from transformers import PreTrainedTokenizerBase
from trl import is_conversational

from pvg_hf.core.templates import adds_bos
from pvg_hf.models.verifier_input import VerifierInput

CLEAN_COLUMNS = ("chosen_correct", "rejected_correct")

KEY_COLUMNS = ("chosen_key", "rejected_key")

LABEL_COLUMNS = ("chosen_label", "rejected_label")

PAIR_COLUMNS = ("row_index", "source", *CLEAN_COLUMNS, *KEY_COLUMNS, *LABEL_COLUMNS)

SAMPLED_ROWS = 16  # whose texts must become the right token ids

MAX_ROWS = 1000  # of a stream, among which these are looked for

# what a batch holds that is not the model's
BATCH_KEYS = ("row_index", "keys", "told_labels", "source", "environments", "clean_order", "margin")


@dataclass
class PairCollator:
    """
    Adds to a batch of pairs who they are: `row_index` (`torch.Tensor` of shape `(num_pairs,)`), `clean_order` (the
    same shape; 1 where the chosen solution alone is truly correct, -1 where the rejected one alone is, 0 where they
    tie; 1 throughout in a dataset without clean truths), `keys` (of shape `(num_pairs, 2)`: what the two solutions are
    known by where noise is drawn, hashes of their tokens unless the dataset has keys) and, where the dataset has them,
    `told_labels` (of shape `(num_pairs, 2)`) and `source` (list of texts).

    Args:
        tokens (`Callable`):
            The collator of the tokens, such as TRL's `DataCollatorForPreference`.
        environment_column (`str`, *optional*):
            The column of the environments, which are wanted as numbers: `environments`, of shape `(num_pairs,)`.
        environment_numbers (`Mapping[str, int]`):
            The number of each.
    """

    tokens: Callable[[list[dict[str, Any]]], dict[str, Any]]
    environment_column: str | None = None
    environment_numbers: Mapping[str, int] = field(default_factory=dict)

    def __call__(self, examples: list[dict[str, Any]]) -> dict[str, Any]:
        batch = dict(self.tokens(examples))
        batch["row_index"] = torch.tensor([example["row_index"] for example in examples])
        batch["clean_order"] = torch.tensor([_clean_order(example) for example in examples])
        batch["keys"] = torch.tensor(
            [[_key(example, side) for side in ("chosen", "rejected")] for example in examples]
        )
        if LABEL_COLUMNS[0] in examples[0]:
            labels = [[example[name] for name in LABEL_COLUMNS] for example in examples]
            batch["told_labels"] = torch.tensor(labels, dtype=torch.float32)
        if "source" in examples[0]:
            batch["source"] = [str(example["source"]) for example in examples]
        if self.environment_column in examples[0]:
            numbers = [self.environment_numbers.get(example[self.environment_column], -1) for example in examples]
            batch["environments"] = torch.tensor(numbers)
        return batch


def column_names(dataset: Dataset | IterableDataset) -> list[str]:
    """Also of a stream, whose columns are known from its first row only."""
    return dataset.column_names or list(next(iter(dataset)))


def check_columns(columns: Sequence[str], *, takes_margin: bool, needs_labels: bool = False) -> None:
    """
    Raises:
        ValueError: if the texts or tokens of a side are missing, one of the two clean truths, keys or labels stands alone, there is a margin and the loss takes none,
            or there are no labels and the loss needs them.
    """
    missing = [side for side in ("chosen", "rejected") if side not in columns and f"{side}_ids" not in columns]
    if missing:
        raise ValueError(
            f"The dataset lacks the column(s) {missing}; it has {list(columns)}. A pair is `chosen` and `rejected`, texts or "
            "messages, or `chosen_ids` and `rejected_ids`, tokens."
        )
    for what, names in (
        ("The clean truth of a pair takes", CLEAN_COLUMNS),
        ("The keys of a pair are", KEY_COLUMNS),
        ("The labels of a pair are", LABEL_COLUMNS),
    ):
        missing = [name for name in names if name not in columns]
        if len(missing) == 1:
            raise ValueError(f"{what} the columns {names}; `{missing[0]}` is missing.")
    if needs_labels and LABEL_COLUMNS[0] not in columns:
        raise ValueError(
            f"`correction=exact` needs pairs that were chosen without regard to their noisy labels, ties included, with the "
            f"columns {LABEL_COLUMNS}; the training set has {list(columns)}. Build them by `build_pairs(..., "
            "pairs='all')`, or take `correction=forward`."
        )
    if "margin" in columns and not takes_margin:
        raise ValueError(
            "The dataset has a column `margin`, which is subtracted inside the sigmoid of the plain Bradley-Terry loss; "
            "other losses and corrections take none. Remove the column, or set `loss=bradley_terry` and "
            "`correction=none`."
        )


def check_environments(dataset: Dataset | IterableDataset, column: str) -> None:
    """
    Raises:
        ValueError: if the environments of a training set cannot be told beforehand.
    """
    if not isinstance(dataset, Dataset):
        raise ValueError(
            "Invariance must know all environments beforehand, and the training set is a stream. Load it whole "
            "(`streaming=False`), or set `invariance=none`."
        )
    if column not in dataset.column_names:
        raise ValueError(
            f"Invariance takes a pair's environment from the column `{column}`, which the training set lacks; it has "
            f"{dataset.column_names}. Name the column in `environment_column`."
        )


def add_row_index(dataset: Dataset | IterableDataset, num_workers: int = 0) -> Dataset | IterableDataset:
    """
    The dataset with the column `row_index`, the position of each pair, by which it is known from now on. A column of
    this name that is there already is kept.

    Args:
        dataset ([`~datasets.Dataset`] or [`~datasets.IterableDataset`]):
            Any.
        num_workers (`int`, defaults to 0):
            Worker processes that read it.

    Raises:
        ValueError: if the column is there with repeated values, or several workers share a stream without it.
    """
    if "row_index" in column_names(dataset):
        _check_unique(dataset)
        return dataset
    if isinstance(dataset, Dataset):
        return dataset.add_column("row_index", range(len(dataset)))
    if num_workers > 1 and dataset.num_shards > 1:
        raise ValueError(
            f"{num_workers} workers share this stream (`dataloader_num_workers`), and each would count its rows from 0. "
            "Use one worker, or give the dataset a column `row_index` with a number of its own for each pair."
        )
    return dataset.map(lambda _, index: {"row_index": index}, with_indices=True)


def add_token_ids(dataset: Dataset | IterableDataset, tokenizer: PreTrainedTokenizerBase) -> Dataset | IterableDataset:
    """
    Plain texts with the special tokens that the tokenizer adds itself: an encoder's frame, e.g. `[CLS] ... [SEP]`, or the
    end token of a saved verifier's tokenizer. TRL appends the end token as text, which would be missing or doubled.
    """
    end = tokenizer.eos_token or ""

    def encode(row: Mapping[str, Any]) -> dict[str, list[int]]:
        texts = {side: row.get("prompt", "") + row[side].removesuffix(end) for side in ("chosen", "rejected")}
        return {f"{side}_ids": tokenizer(text)["input_ids"] for side, text in texts.items()}

    return dataset.map(encode)


def infer_verifier_input(
    dataset: Dataset | IterableDataset,
    prepared: Dataset | IterableDataset,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int | None,
) -> VerifierInput | None:
    """
    How the texts of a dataset became the token ids that the verifier is trained on.

    Args:
        dataset ([`~datasets.Dataset`] or [`~datasets.IterableDataset`]):
            Pairs with `row_index`, as the user gave them.
        prepared ([`~datasets.Dataset`] or [`~datasets.IterableDataset`]):
            The same pairs with `chosen_ids`; long ones may be missing.
        tokenizer:
            Of the verifier.
        max_length (`int`, *optional*):
            Tokens of a text; the tokenizer's maximum by default.

    Returns:
        [`VerifierInput`], whose `problem` is what the column `prompt` holds (in a chat: the user's message); `None` if the
        dataset holds token ids only, or if one template cannot give all of a sample of rows, as with chats of several turns.
    """
    if "chosen_ids" in column_names(dataset):
        return None
    wanted = {row["row_index"]: row["chosen_ids"] for row in _sample(prepared)}
    if isinstance(dataset, Dataset):
        places = [place for place, index in enumerate(dataset["row_index"][:]) if index in wanted]
        rows = dataset.select(places)
    else:
        rows = [row for row in islice(dataset, MAX_ROWS) if row["row_index"] in wanted]
    template = end_token = None
    for row in rows:
        if is_conversational(row):
            parts = _chat_parts(row, tokenizer)
        else:
            end_token = tokenizer.eos_token
            chosen = row["chosen"].removesuffix(end_token or "")
            parts = ("{{ problem }}{{ solution }}", row.get("prompt", ""), chosen)
        if parts is None or template not in (None, parts[0]):
            return None
        template, problem, solution = parts
        verifier_input = VerifierInput(template, end_token, max_length or tokenizer.model_max_length)
        if verifier_input.encode(tokenizer, [problem], [solution]) != [wanted[row["row_index"]]]:
            return None
    return verifier_input if template else None


def _sample(dataset: Dataset | IterableDataset) -> Iterator[Mapping[str, Any]]:
    """Up to 16 rows, spread over a dataset that is at hand and from the beginning of a stream."""
    if isinstance(dataset, Dataset):
        places = np.unique(np.linspace(0, len(dataset) - 1, SAMPLED_ROWS).astype(int))
        return iter(dataset.select_columns(["row_index", "chosen_ids"]).select(places))
    return islice(dataset, SAMPLED_ROWS)


def _chat_parts(row: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase) -> tuple[str, str, str] | None:
    """
    The template of a chat's text, its problem and its solution; `None` unless it has one message of the user and then
    one of the assistant, both texts (a system message may stand before them).
    """
    messages = [*row.get("prompt", []), *row["chosen"]]
    if [message["role"] for message in messages if message["role"] != "system"] != ["user", "assistant"]:
        return None
    spoken = [message["content"] for message in messages if message["role"] != "system"]
    if not all(isinstance(content, str) for content in spoken):
        return None
    marks = {"user": "PROBLEM\ue000", "assistant": "SOLUTION\ue000"}
    marked = [{**message, "content": marks.get(message["role"], message["content"])} for message in messages]
    text = tokenizer.apply_chat_template(marked, tokenize=False)
    if adds_bos(tokenizer):
        text = text.removeprefix(tokenizer.bos_token)
    if [text.count(mark) for mark in marks.values()] != [1, 1]:
        return None
    text = text.replace("{", "{{ '{' }}")
    text = text.replace(marks["user"], "{{ problem }}").replace(marks["assistant"], "{{ solution }}")
    return text, *spoken


def _check_unique(dataset: Dataset | IterableDataset) -> None:
    if isinstance(dataset, Dataset) and len(dataset.unique("row_index")) < len(dataset):
        raise ValueError(
            "The column `row_index` repeats values; it numbers each pair once. Rename it, or remove it to number the "
            "pairs by position."
        )


def _clean_order(example: Mapping[str, Any]) -> int:
    if CLEAN_COLUMNS[0] not in example:
        return 1
    return int(example["chosen_correct"]) - int(example["rejected_correct"])


def _key(example: Mapping[str, Any], side: str) -> int:
    if KEY_COLUMNS[0] in example:
        return example[f"{side}_key"]
    tokens = np.asarray(example[f"{side}_ids"], dtype="<i8").tobytes()
    return int.from_bytes(blake2b(tokens, digest_size=8).digest(), "big") >> 1
