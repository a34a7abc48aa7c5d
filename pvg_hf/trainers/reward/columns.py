"""Columns of a pair in addition to its tokens: checks, collation, and the inferred input format."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import Any, cast

import numpy as np
import torch
from datasets import Dataset, IterableDataset
from transformers import PreTrainedTokenizerBase
from trl import is_conversational

from pvg_hf.core.extensions import show_value
from pvg_hf.core.templates import adds_bos, message_text
from pvg_hf.data.reading import as_chat, is_chat, split_prompt
from pvg_hf.models.verifier_input import VerifierInput, max_characters

CLEAN_COLUMNS = ("chosen_correct", "rejected_correct")

KEY_COLUMNS = ("chosen_key", "rejected_key")

LABEL_COLUMNS = ("chosen_label", "rejected_label")

PAIR_COLUMNS = ("row_index", "source", *CLEAN_COLUMNS, *KEY_COLUMNS, *LABEL_COLUMNS)

SAMPLED_ROWS = 16  # rows whose texts must give the right token ids

MAX_ROWS = 1000  # rows of a stream in which those are looked up

# Keys of a batch that are not passed to the model.
BATCH_KEYS = ("row_index", "keys", "given_labels", "source", "environments", "clean_order", "margin", "step")


@dataclass
class PairCollator:
    """
    Collates pairs, and adds further columns to the batch of tokens.

    The columns are `row_index` (`torch.Tensor` of shape `(num_pairs,)`), `clean_order` (same shape; 1 if only the
    chosen solution is truly correct, -1 if only the rejected one is, 0 for a tie; always 1 for a dataset without
    truths), `keys` (shape `(num_pairs, 2)`: identify the two solutions for drawing noise; hashes of their tokens
    unless the dataset has keys) and, if the dataset has them, `given_labels` (shape `(num_pairs, 2)`) and `source`
    (list of texts).

    Args:
        tokens: Collator of the tokens, such as TRL's `DataCollatorForPreference`.
        environment_column: Column of the environments, which are added as numbers: `environments`, of shape
            `(num_pairs,)`.
        environment_numbers: Number of each environment.
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
            batch["given_labels"] = torch.tensor(labels, dtype=torch.float32)
        if "source" in examples[0]:
            batch["source"] = [str(example["source"]) for example in examples]
        if self.environment_column in examples[0]:
            numbers = [self.environment_numbers.get(example[self.environment_column], -1) for example in examples]
            batch["environments"] = torch.tensor(numbers)
        return batch


def column_names(dataset: Dataset | IterableDataset) -> list[str]:
    """Return the columns of a dataset, or of a stream by reading its first row."""
    return dataset.column_names or list(next(iter(dataset)))


def check_columns(columns: Sequence[str], *, takes_margin: bool, needs_labels: bool = False) -> None:
    """
    Check that the columns of a pair are complete and fit the loss.

    Raises `ValueError` if texts or tokens of a side are missing, only one of the two truths, keys or labels is given,
        there is a margin that the loss does not support, or the labels that the loss needs are missing.
    """
    missing = [side for side in ("chosen", "rejected") if side not in columns and f"{side}_ids" not in columns]
    if missing:
        raise ValueError(
            f"The dataset lacks the column(s) {missing}; it has {list(columns)}. A pair consists of `chosen` and"
            " `rejected`, texts or messages, or of `chosen_ids` and `rejected_ids`, tokens."
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
            "`correction=exact` needs pairs that were chosen regardless of their noisy labels, including ties, with"
            f" the columns {LABEL_COLUMNS}; the training set has {list(columns)}. Build them by `build_pairs(...,"
            " pairs='all')`, or use `correction=forward`."
        )
    if "margin" in columns and not takes_margin:
        raise ValueError(
            "The dataset has a column `margin`, which is subtracted inside the sigmoid of the plain Bradley-Terry"
            " loss; other losses and corrections do not support it. Remove the column, or set `loss=bradley_terry` and"
            " `correction=none`."
        )


def read_sides(dataset: Dataset | IterableDataset) -> Dataset | IterableDataset:
    """
    Check that the sides of every pair are both texts or both chats. In pairs of chats, a prompt that is a text becomes
    a message, or is the one with which the chats begin.

    Raises `ValueError` for any other value, with its row and column; a stream raises it when it gets there.
    """
    if "chosen_ids" in column_names(dataset):
        return dataset
    if not isinstance(dataset, Dataset):
        return dataset.map(_read_pair, with_indices=True)
    columns = [name for name in ("prompt", "chosen", "rejected") if name in dataset.column_names]
    changes = [_read_pair(row, index) for index, row in enumerate(dataset.select_columns(columns))]
    return dataset.map(_read_pair, with_indices=True) if any(changes) else dataset


def _read_pair(row: Mapping[str, Any], index: int) -> dict[str, Any]:
    """Return the columns of a pair that change."""
    for side in ("chosen", "rejected"):
        if not (isinstance(row[side], str) or is_chat(row[side])):
            raise ValueError(
                f"Row {index}: `{side}` must be a text or a chat, but it is {show_value(row[side])}. Drop the row or"
                " correct it."
            )
    if "prompt" in row and not (isinstance(row["prompt"], str) or is_chat(row["prompt"])):
        raise ValueError(f"Row {index}: `prompt` must be a text or a chat, but it is {show_value(row['prompt'])}.")
    sides = [row["chosen"], row["rejected"]]
    if "prompt" not in row:
        if isinstance(sides[0], str) != isinstance(sides[1], str):
            raise ValueError(f"Row {index}: one of `chosen` and `rejected` is a chat, the other is a text.")
        return {}
    if all(isinstance(value, str) for value in (row["prompt"], *sides)):
        return {}
    problem, rest = split_prompt(f"Row {index}", row["prompt"], sides)
    chosen, rejected = (as_chat(side, "assistant") for side in rest)
    read = {"prompt": as_chat(problem or "", "user"), "chosen": chosen, "rejected": rejected}
    return {} if all(row[name] == value for name, value in read.items()) else read


def drop_huge_pairs(
    dataset: Dataset | IterableDataset, tokenizer: PreTrainedTokenizerBase, max_length: int | None
) -> Dataset | IterableDataset:
    """Drop pairs of which a side is certainly longer than `max_length` tokens, because tokenising them takes long."""
    if max_length is None or "chosen_ids" in column_names(dataset):
        return dataset

    def size(row: Mapping[str, Any]) -> int:
        return max(
            _num_characters(row.get("prompt", "")) + _num_characters(row[side]) for side in ("chosen", "rejected")
        )

    if not isinstance(dataset, Dataset):
        return dataset.filter(lambda row: size(row) <= max_characters(tokenizer, max_length, size(row)))
    sizes = [size(row) for row in dataset]
    limit = max_characters(tokenizer, max_length, max(sizes, default=0))
    kept = [index for index, num_characters in enumerate(sizes) if num_characters <= limit]
    return dataset if len(kept) == len(dataset) else dataset.select(kept)


def _num_characters(side: str | Sequence[Mapping[str, Any]]) -> int:
    return len(side) if isinstance(side, str) else sum(len(message_text(message)) for message in side)


def check_environments(dataset: Dataset | IterableDataset, column: str) -> None:
    """
    Check that the environments of a training set are known in advance.

    Raises `ValueError` if the training set is a stream or lacks the column.
    """
    if not isinstance(dataset, Dataset):
        raise ValueError(
            "Invariance must know all environments in advance, but the training set is a stream. Load it completely "
            "(`streaming=False`), or set `invariance=none`."
        )
    if column not in dataset.column_names:
        raise ValueError(
            f"Invariance takes a pair's environment from the column `{column}`, which the training set lacks; it has "
            f"{dataset.column_names}. Name the column in `environment_column`."
        )


def add_row_index(dataset: Dataset | IterableDataset, num_workers: int = 0) -> Dataset | IterableDataset:
    """
    Add the column `row_index` with the position of each pair, which identifies the pair from then on.

    An existing column of this name is kept.

    Raises `ValueError` if an existing column repeats values, or several workers share a stream without the column.
    """
    if "row_index" in column_names(dataset):
        _check_unique(dataset)
        return dataset
    if isinstance(dataset, Dataset):
        return dataset.add_column("row_index", range(len(dataset)))
    if num_workers > 1 and dataset.num_shards > 1:
        raise ValueError(
            f"{num_workers} workers share this stream (`dataloader_num_workers`), and each would count its rows from"
            " 0. Use one worker, or add a column `row_index` with a unique number for each pair."
        )
    return dataset.map(lambda _, index: {"row_index": index}, with_indices=True)


def add_token_ids(dataset: Dataset | IterableDataset, tokenizer: PreTrainedTokenizerBase) -> Dataset | IterableDataset:
    """
    Tokenise plain texts with the special tokens that the tokenizer adds itself.

    These are an encoder's frame, e.g. `[CLS] ... [SEP]`, or the end token of a saved verifier's tokenizer. TRL would
    append the end token as text, so that it would be missing or doubled.
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
    Infer the input format by which the texts of a dataset became the verifier's token ids.

    Args:
        dataset: Pairs with `row_index`, as passed by the user.
        prepared: The same pairs with `chosen_ids`; long ones may be missing.
        max_length: Maximum tokens of a text; the tokenizer's maximum by default.
    Returns: [`VerifierInput`], whose `problem` is the content of the column `prompt` (in a chat: the user's message).
        `None` if the dataset has token ids only, or if no single template fits a sample of rows, as for chats with
        several turns.
    """
    if "chosen_ids" in column_names(dataset):
        return None
    wanted = {row["row_index"]: row["chosen_ids"] for row in _sample(prepared, ["row_index", "chosen_ids"])}
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


def pair_texts(dataset: Dataset | IterableDataset) -> list[str]:
    """Return the texts of a sample of pairs; none for token ids."""
    if "chosen_ids" in column_names(dataset):
        return []
    sides = [row[name] for row in _sample(dataset) for name in ("prompt", "chosen", "rejected") if name in row]
    return [text for side in sides for text in ([side] if isinstance(side, str) else map(message_text, side))]


def _sample(dataset: Dataset | IterableDataset, columns: Sequence[str] = ()) -> Iterator[Mapping[str, Any]]:
    """Yield up to 16 rows: spread over a dataset, with all columns or these, or from the beginning of a stream."""
    if isinstance(dataset, Dataset):
        places = np.unique(np.linspace(0, len(dataset) - 1, SAMPLED_ROWS).astype(int))
        return iter(dataset.select_columns(list(columns) or dataset.column_names).select(places))
    return islice(dataset, SAMPLED_ROWS)


def _chat_parts(row: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase) -> tuple[str, str, str] | None:
    """
    Return the template of a chat's text, its problem and its solution.

    `None` unless the chat consists of a text by the user and then one by the assistant, possibly after a system
    message.
    """
    messages = [*row.get("prompt", []), *row["chosen"]]
    if [message["role"] for message in messages if message["role"] != "system"] != ["user", "assistant"]:
        return None
    spoken = [message["content"] for message in messages if message["role"] != "system"]
    if not all(isinstance(content, str) for content in spoken):
        return None
    # Texts that occur nowhere else mark the places of problem and solution in the rendered chat.
    marks = {"user": "PROBLEM\ue000", "assistant": "SOLUTION\ue000"}
    marked = [{**message, "content": marks.get(message["role"], message["content"])} for message in messages]
    text = cast(str, tokenizer.apply_chat_template(marked, tokenize=False))
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
            "The column `row_index` has repeated values; it must number each pair once. Rename it, or remove it to"
            " number the pairs by position."
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
