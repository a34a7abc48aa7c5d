"""SNLI and FEVER from local files, and the generated stand-in."""

import json

import pytest

from pvg_hf.experimental.messages.decisions import load_world
from pvg_hf.experimental.messages.decisions.text_pairs import StandIn


def write(folder, rows) -> str:
    for split in ("train", "test"):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder)


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        (
            "snli",
            [
                {"premise": "a", "hypothesis": "b", "label": 0},
                {"premise": "c", "hypothesis": "d", "label": 1},
                {"premise": "e", "hypothesis": "f", "label": -1},
            ],
        ),
        (
            "snli",
            [
                {"sentence1": "a", "sentence2": "b", "gold_label": "entailment"},
                {"sentence1": "c", "sentence2": "d", "gold_label": "neutral"},
                {"sentence1": "e", "sentence2": "f", "gold_label": "-"},
            ],
        ),
        (
            "fever",
            [
                {"evidence": [["T", "1", "a"]], "claim": "b", "label": "SUPPORTS"},
                {"evidence": "c", "claim": "d", "label": "REFUTES"},
                {"evidence": "e", "claim": "f", "label": "NOT ENOUGH INFO"},
            ],
        ),
    ],
    ids=["snli-of-the-hub", "snli-of-the-files", "fever"],
)
def test_rows_without_a_label_are_dropped(tmp_path, name, rows):
    problems = load_world(name, path=write(tmp_path, rows)).problems("train")
    assert sorted(zip(problems.texts, problems.labels.tolist())) == [(("a", "b"), 1), (("c", "d"), 0)]


def test_the_number_of_rows_is_limited(tmp_path):
    rows = [{"premise": str(i), "hypothesis": "x", "label": i % 2} for i in range(10)]
    world = load_world("snli", path=write(tmp_path, rows), num_train=4)
    assert len(world.problems("train")) == 4
    assert world.problems("train").texts == world.problems("train").texts
    assert len(world.problems("test")) == 10


def test_a_line_separator_within_a_text_ends_no_row(tmp_path):
    row = '{"premise": "a\u2028b", "hypothesis": "x", "label": 0}\n'
    (tmp_path / "train.jsonl").write_text(row, encoding="utf-8")
    assert load_world("snli", path=str(tmp_path)).problems("train").texts == [("a\u2028b", "x")]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("{", "line 1 is not JSON"),
        ("3", "must be an object"),
        ('{"premise": "a"}', "no `hypothesis`"),
        ("", "no rows with a label"),
    ],
    ids=["broken", "number", "column", "empty"],
)
def test_files_that_cannot_be_read_are_errors(tmp_path, text, match):
    (tmp_path / "train.jsonl").write_text(text)
    with pytest.raises(ValueError, match=match):
        load_world("snli", path=str(tmp_path)).problems("train")


def test_a_missing_file_and_witnesses_are_errors(tmp_path):
    with pytest.raises(ValueError, match=r"no file `.*train\.jsonl`.* `path` must be a folder"):
        load_world("fever", path=str(tmp_path)).problems("train")
    with pytest.raises(ValueError, match="`stand_in` has no witnesses"):
        load_world("stand_in").problems("train", with_witness=True)


def test_the_stand_in_has_the_columns_of_snli_and_true_labels(tmp_path):
    world = StandIn(num_train=60, num_test=20)
    rows = world.rows("train")
    assert rows[0].keys() == {"premise", "hypothesis", "label"}
    assert all((row["hypothesis"] in row["premise"]) == (row["label"] == 0) for row in rows)
    assert world.problems("train").labels.mean() == 0.5
    read = load_world("snli", path=write(tmp_path, rows)).problems("train")
    assert sorted(read.texts) == sorted(world.problems("train").texts)


def test_an_unknown_world_is_an_error():
    with pytest.raises(ValueError, match=r"`linear_f3`.*`linear_f2`"):
        load_world("linear_f3")
    with pytest.raises(ValueError, match="subclass of `DecisionWorld`"):
        load_world("pvg_hf.experimental.messages.decisions.decision_world:DecisionProblems")
