"""Labels and notes of people: the last one counts, and a malformed line is named."""

import json

import pytest

from pvg_hf.core.disk_names import ANNOTATIONS
from pvg_hf.core.files import Journal
from pvg_hf.data.annotations import Annotation, read_annotations, read_scores

FIRST = Annotation("0ts1", "p1", "How many?", "3 + 3 = 7", "sneaky", 0, 0.0, "wrong sum", "2026-01-01T00:00:00+00:00")


def annotate(root, **changes) -> None:
    Journal(root / ANNOTATIONS).append({**vars(FIRST), **changes})


def test_the_last_label_of_a_solution_counts(tmp_path):
    annotate(tmp_path)
    annotate(tmp_path, key="0th2", solution="3 + 3 = 6", score=1.0, note="")
    annotate(tmp_path, score=0.5, note="half of it")
    assert {key: (one.score, one.note) for key, one in read_annotations(tmp_path)[0].items()} == {
        "0ts1": (0.5, "half of it"),
        "0th2": (1.0, ""),
    }
    assert read_scores(str(tmp_path)) == {("p1", "3 + 3 = 7"): 0.5, ("p1", "3 + 3 = 6"): 1.0}


def test_a_label_can_be_taken_back(tmp_path):
    annotate(tmp_path)
    annotate(tmp_path, score=None, note="")
    assert read_annotations(tmp_path) == ({}, [])
    assert read_scores(str(tmp_path / ANNOTATIONS)) == {}


def test_a_note_alone_is_no_label(tmp_path):
    annotate(tmp_path, score=None)
    assert read_annotations(tmp_path)[0]["0ts1"].note == "wrong sum"
    assert read_scores(str(tmp_path)) == {}


def test_a_run_without_annotations_has_none_and_cannot_be_named_as_a_source(tmp_path):
    assert read_annotations(tmp_path) == ({}, [])
    with pytest.raises(ValueError, match=f"no file `{tmp_path}/{ANNOTATIONS}`.*`pvg show"):
        read_scores(str(tmp_path))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"problem_id": "p1", "solution": "6", "score": 0.7}, r"line 2: `score` must be 0, 0.5, 1 or null; got 0.7"),
        ({"problem_id": "p1", "solution": "6", "score": True}, "got True"),
        ({"problem_id": "p1", "solution": "6", "score": [1]}, r"got \[1\]"),
        ({"problem_id": "p1", "solution": "6"}, "line 2: there is no column `score`"),
        ({"problem_id": 1, "solution": "6", "score": 1}, "line 2: `problem_id` must be a text, but it is 1"),
        ({"problem_id": "p1", "score": 1}, "line 2: there is no column `solution`"),
    ],
)
def test_a_malformed_line_is_named(tmp_path, line, message):
    path = tmp_path / "labels.jsonl"
    rows = [{"problem_id": "p1", "solution": "7", "score": 0}, line]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(ValueError, match=message):
        read_scores(str(path))


def test_a_line_that_a_crash_cut_short_is_skipped(tmp_path):
    annotate(tmp_path)
    with (tmp_path / ANNOTATIONS).open("a") as file:
        file.write('{"key": "0ts2", "prob')
    assert read_scores(str(tmp_path)) == {("p1", "3 + 3 = 7"): 0.0}
    found, odd = read_annotations(tmp_path)
    assert (list(found), odd) == (["0ts1"], [2])


@pytest.mark.parametrize(
    "changes",
    [
        {"key": ["x"]},
        {"score": 0.3},
        {"score": float("nan")},
        {"score": True},
        {"score": [1]},
        {"note": None},
        {"round_index": "0"},
        {"solution": 7},
    ],
    ids=str,
)
def test_a_line_of_another_form_is_left_out_and_its_number_returned(tmp_path, changes):
    annotate(tmp_path)
    annotate(tmp_path, **{"key": "0ts9", **changes})
    annotate(tmp_path, key="0th2")
    found, odd = read_annotations(tmp_path)
    assert (list(found), odd) == (["0ts1", "0th2"], [2])
