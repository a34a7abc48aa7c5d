"""The review file: a person's entries are read, and kept when it is written again."""

import csv

import pytest

from pvg_hf.analyses.scaled import CheckedAnalysis
from pvg_hf.data.review import ReviewItem, read_review, write_review

ANALYSES = [CheckedAnalysis('first\n"line", with; signs', 0.5, (1.0, None)), CheckedAnalysis("=1+1", None)]
ITEMS = [ReviewItem(key, f"problem {key}", f"=proof {key}\nof lines", ANALYSES) for key in ("a", "b", "c")]


@pytest.fixture
def path(tmp_path):
    write_review(tmp_path / "review.csv", ITEMS, {})
    return tmp_path / "review.csv"


def rows_of(path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def fill_in(path, scores: dict[str, str], *, delimiter: str = ",", encoding: str = "utf-8") -> None:
    """Save the file as a spreadsheet would."""
    rows = rows_of(path)
    with path.open("w", newline="", encoding=encoding) as file:
        writer = csv.DictWriter(file, rows[0], delimiter=delimiter)
        writer.writeheader()
        writer.writerows({**row, "score": scores.get(row["key"], row["score"])} for row in rows)


def test_the_review_file_shows_problem_proof_and_analyses(path):
    first = rows_of(path)[0]
    assert first["score"] == ""
    assert first["proof"] == "'=proof a\nof lines"  # no formula
    assert first["predicted"] == "0.5 ?"
    assert first["analyses"] == 'first\n"line", with; signs\n(checks: 1, no score)\n\n=1+1'
    assert read_review(path) == {}
    assert read_review(path.with_name("none.csv")) == {}


@pytest.mark.parametrize("form", [{}, {"delimiter": ";"}, {"encoding": "utf-8-sig"}])
def test_a_persons_scores_are_read_from_the_file(path, form):
    fill_in(path, {"a": "1", "b": " 0,5 " if form.get("delimiter") else "0.5"}, **form)
    assert read_review(path) == {"a": 1.0, "b": 0.5}


def test_scores_are_kept_if_the_file_is_written_again(path):
    fill_in(path, {"a": "1", "c": "0"})
    write_review(path, ITEMS[1:], {})
    assert read_review(path) == {"a": 1.0, "c": 0.0}
    assert [row["key"] for row in rows_of(path)] == ["b", "c", "a"]
    assert rows_of(path)[2]["problem"] == "problem a"


@pytest.mark.parametrize("score", ["0.7", "good", "2", "nan"])
def test_a_score_that_is_not_allowed_is_refused_and_kept(path, score):
    fill_in(path, {"b": score})
    before = path.read_bytes()
    for use in (read_review, lambda file: write_review(file, ITEMS, {})):
        with pytest.raises(ValueError, match=f"row 3: .* score .*`{score}`"):
            use(path)
    assert path.read_bytes() == before


def test_a_file_that_is_not_utf_8_is_an_error(path):
    path.write_bytes(b"key,score,proof\na,1,Z\xfcge\n")
    with pytest.raises(ValueError, match=r"not UTF-8.* `CSV UTF-8`"):
        read_review(path)


def test_a_missing_column_is_an_error(path):
    path.write_text("key,problem\na,P\n")
    with pytest.raises(ValueError, match=r"lacks .*\['score'\]"):
        read_review(path)
