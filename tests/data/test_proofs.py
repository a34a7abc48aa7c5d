"""Datasets of proofs: columns, scores, and what is refused."""

import json

import pytest
from datasets import Dataset

from pvg_hf.data.proofs import check_proofs, load_proofs


@pytest.fixture
def write(tmp_path):
    def _write(*rows) -> str:
        path = tmp_path / "proofs.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(path)

    return _write


def test_columns_are_mapped_and_scores_may_be_missing(write):
    source = write(
        {"question": "P", "proof": "Q", "grade": 0.5, "more": 1},
        {"question": "P", "proof": "R", "grade": None},
        {"question": "P", "proof": "S", "grade": 1},
    )
    proofs = load_proofs(source, columns={"problem": "question", "score": "grade"})
    assert proofs.to_list() == [
        {"problem": "P", "proof": "Q", "score": 0.5},
        {"problem": "P", "proof": "R", "score": None},
        {"problem": "P", "proof": "S", "score": 1.0},
    ]


def test_a_source_without_scores_can_be_read(write):
    assert load_proofs(write({"problem": "P", "proof": "Q"})).to_list()[0]["score"] is None


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        ([{"problem": "P", "solution": "Q"}], None, r"line 1: .*no column `proof`"),
        ([{"problem": "P", "proof": 3}], None, r"line 1: `proof` .*is 3"),
        ([{"problem": "P", "proof": "Q"}], {"score": "grade"}, r"line 1: .*no column `grade`"),
        ([{"problem": "P", "proof": "Q"}], {"grade": "score"}, r"`columns` maps \['grade'\]"),
        (
            [{"problem": "P", "proof": "Q", "score": score} for score in (1, 0.7, "1", "2", -1)],
            None,
            r"line 2: 0.7, .*line 4: '2', .*line 5: -1\.",
        ),
        ([{"problem": "P", "proof": "Q", "score": 1, "analysis": "A"}], None, "line 1 is about an analysis"),
        ([], None, "holds no proof"),
    ],
)
def test_sources_that_hold_no_proofs_are_errors(write, rows, columns, message):
    with pytest.raises(ValueError, match=message):
        load_proofs(write(*rows), columns=columns)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"problem": ["P"], "solution": ["Q"]}, r"lacks .*\['proof', 'score'\]"),
        ({"problem": ["P"] * 9, "proof": ["Q"] * 9, "score": [2.0] * 9}, r"row 0: 2.0, .* row 4: 2.0 and 4 more"),
        ({"problem": ["P"], "proof": ["Q"], "score": ["1"]}, "row 0: '1'"),
        ({"problem": ["P"], "proof": ["Q"], "score": [None]}, "None of the 1 proofs"),
    ],
)
def test_datasets_without_the_columns_are_errors(columns, message):
    with pytest.raises(ValueError, match=message):
        check_proofs(Dataset.from_dict(columns), needs_scores=True)
