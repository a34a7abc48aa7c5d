import pytest
import torch
from datasets import Dataset

from pvg_hf.trainers.reward.columns import (
    BATCH_KEYS,
    PairCollator,
    add_row_index,
    check_columns,
    column_names,
    drop_huge_pairs,
    read_sides,
)
from tests.support.verifier_training import make_tokenizer

ROWS = [{"chosen_ids": [1, 2], "rejected_ids": [3]}, {"chosen_ids": [4], "rejected_ids": [5]}]


def _collate(rows):
    collator = PairCollator(lambda examples: {"input_ids": torch.zeros(2 * len(examples), 2)})
    return collator([{**ROWS[0], **row} for row in rows])


def test_positions_are_numbered():
    dataset = Dataset.from_list(ROWS)
    assert add_row_index(dataset)["row_index"][:] == [0, 1]
    stream = add_row_index(dataset.to_iterable_dataset())
    assert [row["row_index"] for row in stream] == [0, 1]
    assert "row_index" in column_names(stream)


def test_existing_numbers_are_kept():
    dataset = Dataset.from_list([{**row, "row_index": 9 - i} for i, row in enumerate(ROWS)])
    assert add_row_index(dataset)["row_index"][:] == [9, 8]


def test_repeated_numbers_are_refused():
    with pytest.raises(ValueError, match="repeated values"):
        add_row_index(Dataset.from_list([{**row, "row_index": 1} for row in ROWS]))


def test_a_stream_shared_by_workers_needs_numbers():
    stream = Dataset.from_list(ROWS).to_iterable_dataset(num_shards=2)
    with pytest.raises(ValueError, match=r"2 workers .*`dataloader_num_workers`"):
        add_row_index(stream, num_workers=2)
    assert len(list(add_row_index(stream, num_workers=1))) == 2


@pytest.mark.parametrize(
    ("columns", "takes_margin", "message"),
    [
        (["chosen", "rejected", "chosen_correct"], True, "`rejected_correct` is missing"),
        (["chosen", "rejected", "rejected_key"], True, "`chosen_key` is missing"),
        (["chosen", "rejected", "margin"], False, "column `margin`"),
    ],
)
def test_wrong_columns_are_refused(columns, takes_margin, message):
    with pytest.raises(ValueError, match=message):
        check_columns(columns, takes_margin=takes_margin)


def test_a_batch_has_positions_truths_and_sources():
    truths = [(True, False), (False, True), (True, True)]
    batch = _collate(
        [
            {"row_index": 5 + i, "source": "base", "chosen_correct": chosen, "rejected_correct": rejected}
            for i, (chosen, rejected) in enumerate(truths)
        ]
    )
    assert batch["row_index"].tolist() == [5, 6, 7]
    assert batch["clean_order"].tolist() == [1, -1, 0]
    assert batch["source"] == ["base"] * 3
    assert batch["input_ids"].shape == (6, 2)


def test_a_batch_without_truths_has_the_order_of_its_pairs():
    batch = _collate([{"row_index": 0}, {"row_index": 1}])
    assert batch["clean_order"].tolist() == [1, 1]
    assert "source" not in batch


def test_equal_tokens_have_one_key():
    batch = _collate([{"row_index": 0}, {"row_index": 1}])
    assert batch["keys"].shape == (2, 2)
    assert (batch["keys"] >= 0).all()
    assert batch["keys"][0].equal(batch["keys"][1])
    assert batch["keys"][0, 0] != batch["keys"][0, 1]


def test_keys_of_the_dataset_are_kept():
    batch = _collate([{"row_index": 0, "chosen_key": 2**63 - 1, "rejected_key": 0}])
    assert batch["keys"].tolist() == [[2**63 - 1, 0]]


def test_labels_and_environments_become_tensors():
    rows = [{**ROWS[0], "row_index": i, "chosen_label": 1, "rejected_label": i, "writer": "ab"[i]} for i in (0, 1)]
    collator = PairCollator(lambda examples: {}, "writer", {"a": 4, "b": 2})
    batch = collator(rows)
    assert batch["given_labels"].tolist() == [[1.0, 0.0], [1.0, 1.0]]
    assert batch["environments"].tolist() == [4, 2]
    assert {"given_labels", "environments"} <= set(BATCH_KEYS)
    assert (
        not {"given_labels", "environments"} & PairCollator(lambda examples: {})([{**ROWS[0], "row_index": 0}]).keys()
    )


USER = {"role": "user", "content": "How many?"}
RIGHT, WRONG = {"role": "assistant", "content": "#### 5"}, {"role": "assistant", "content": "#### 6"}


@pytest.mark.parametrize("is_stream", [False, True], ids=["dataset", "stream"])
@pytest.mark.parametrize("begins_with", [[USER], []], ids=["whole chats", "answers alone"])
def test_a_text_prompt_of_chats_becomes_a_message(is_stream, begins_with):
    row = {"prompt": "How many?", "chosen": [*begins_with, RIGHT], "rejected": [*begins_with, WRONG]}
    dataset = Dataset.from_list([row] * 2)
    read = read_sides(dataset.to_iterable_dataset() if is_stream else dataset)
    assert list(read) == [{"prompt": [USER], "chosen": [RIGHT], "rejected": [WRONG]}] * 2


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "p", "chosen": "a", "rejected": "b"},
        {"chosen": [USER, RIGHT], "rejected": [USER, WRONG]},
        {"prompt": [USER], "chosen": [RIGHT], "rejected": [WRONG]},
        {"chosen_ids": [1], "rejected_ids": [2]},
    ],
)
def test_usual_pairs_stay_as_they_are(row):
    dataset = Dataset.from_list([row])
    assert read_sides(dataset) is dataset


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"chosen": "a", "rejected": None}, "Row 1: `rejected` must be a text or a chat, but it is None"),
        ({"chosen": None, "rejected": "b"}, "Row 1: `chosen` must be"),
        ({"prompt": None, "chosen": "a", "rejected": "b"}, "Row 1: `prompt` must be"),
    ],
)
def test_a_null_side_is_named(row, message):
    whole = {"prompt": "p", "chosen": "a", "rejected": "b"}
    with pytest.raises(ValueError, match=message):
        read_sides(Dataset.from_list([{name: whole[name] for name in row}, row]))


@pytest.mark.parametrize("side", [["#### 5"], 5, [[RIGHT]], [{"role": "user"}]])
def test_another_kind_of_side_is_named(side):
    with pytest.raises(ValueError, match="Row 0: `chosen` must be a text or a chat, but it is"):
        read_sides(Dataset.from_list([{"prompt": "p", "chosen": side, "rejected": "b"}]))


def test_pairs_that_cannot_fit_are_dropped_before_they_are_tokenised():
    """Words have at most 5 characters, so that 300,000 of them are more than 9 tokens, and 50,000 may be fewer."""
    rows = [{"prompt": "w0", "chosen": "w1" * number, "rejected": "w2"} for number in (1, 150_000, 25_000)]
    dataset = Dataset.from_list(rows)
    for pairs in (dataset, dataset.to_iterable_dataset()):
        kept = list(drop_huge_pairs(pairs, make_tokenizer(), 9))
        assert [len(row["chosen"]) for row in kept] == [2, 50_000]
    assert drop_huge_pairs(dataset, make_tokenizer(), None) is dataset
