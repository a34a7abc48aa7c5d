"""Sheets that are filled in elsewhere and read back."""

import csv
import io

import pytest

from pvg_hf.experimental.study.sheets import SheetError, read_sheets, write_sheets


def filled_in(text: str, *answers: dict[str, str], delimiter: str = ",") -> str:
    """Fill in the first rows of the sheet."""
    rows = list(csv.DictReader(io.StringIO(text)))
    for row, answer in zip(rows, answers):
        row.update(answer)
    file = io.StringIO()
    writer = csv.DictWriter(file, rows[0].keys(), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def test_a_sheet_does_not_reveal_who_wrote_a_solution(study):
    text = write_sheets(study, ["ann", "bob"])
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 16
    assert not {"role", "round_index", "correct"} & rows[0].keys()
    assert "sneaky" not in text
    assert [row["item"] for row in rows[:8]] == [item.item for item in study.sheet("ann")]


def test_a_text_that_looks_like_a_formula_is_not_executed(study):
    rows = list(csv.DictReader(io.StringIO(write_sheets(study, ["ann"]))))
    assert {row["solution"][:2] for row in rows} == {"'="}
    assert {row["problem"] for row in rows} == {"How many?"}


def test_answers_from_a_sheet_are_recorded_once(study):
    sheet = filled_in(
        write_sheets(study, ["ann"]),
        {"judgment": "Correct", "confidence": "2", "seconds": "30,5"},
        {"judgment": "time ran out", "confidence": "3"},
        {"judgment": "flawed"},
    )
    assert read_sheets(study, "\ufeff" + sheet) == (3, 0)
    assert read_sheets(study, sheet) == (0, 3)
    said = [(row["judgment"], row["confidence"], row["seconds"], row["source"]) for row in study.answers()]
    assert said == [
        ("correct", 2, 30.5, "sheet"),
        ("time_ran_out", None, None, "sheet"),
        ("flawed", None, None, "sheet"),
    ]
    assert study.progress("ann").num_done == 3


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"judgment": "maybe"}, "judgment 'maybe'; allowed: correct, flawed, time ran out"),
        ({"judgment": "correct", "confidence": "9"}, "confidence '9'; allowed: 1, 2, 3"),
        ({"judgment": "correct", "seconds": "46"}, "seconds '46'; allowed: 0 to 45"),
        ({"judgment": "correct", "seconds": "nan"}, "seconds 'nan'"),
        ({"judgment": "correct", "item": "x"}, "item 'x' is not on the sheet of ann"),
        ({"judgment": "correct", "participant": "eve"}, "participant 'eve' has no sheet"),
    ],
)
def test_an_invalid_row_is_named_and_nothing_is_recorded(study, answer, message):
    sheet = filled_in(write_sheets(study, ["ann"]), {"judgment": "correct"}, answer)
    with pytest.raises(SheetError) as caught:
        read_sheets(study, sheet)
    assert message in str(caught.value)
    assert "invalid rows: 1." in str(caught.value)
    assert study.answers() == []


def test_a_sheet_saved_with_semicolons_is_read(study):
    said = {"judgment": "flawed", "seconds": "30,5"}
    sheet = filled_in(write_sheets(study, ["ann"]), said, delimiter=";")
    assert read_sheets(study, sheet) == (1, 0)
    assert [row["seconds"] for row in study.answers()] == [30.5]


def test_a_sheet_of_very_long_texts_is_read_again(study):
    sheet = filled_in(write_sheets(study, ["ann"]), {"judgment": "correct"}, {"problem": "x" * 200_000})
    assert read_sheets(study, sheet)[0] > 0


def test_another_file_is_refused(study):
    with pytest.raises(SheetError, match=r"lacks .*\['participant', 'item', 'judgment'\]"):
        read_sheets(study, "a,b\n1,2\n")
