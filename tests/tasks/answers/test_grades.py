"""Strict and lenient grades, and the answers that a reference allows."""

import json
import os
from pathlib import Path

import pytest

from pvg_hf.tasks.answers import ANSWER_COLUMNS, ANSWER_FORMATS, grade_answer, reference_answer


def test_strict_and_lenient_grades():
    strict = grade_answer("2 + 2 = 4, so 4", "steps\n#### 4")
    assert (strict.answer, strict.correct) == (None, False)
    assert strict.detail == {
        "strict_answer": None,
        "strict_correct": False,
        "lenient_answer": "4",
        "lenient_correct": True,
    }
    lenient = grade_answer("2 + 2 = 4, so 4", "steps\n#### 4", answer_format="lenient")
    assert (lenient.answer, lenient.correct) == ("4", True)
    assert lenient.detail == strict.detail
    marked = grade_answer("#### 5\nor 4", "4")
    assert (marked.answer, marked.correct) == ("5", False)
    assert marked.detail == {
        "strict_answer": "5",
        "strict_correct": False,
        "lenient_answer": "5",
        "lenient_correct": False,
    }
    assert marked.detail.keys() == ANSWER_COLUMNS.keys()


@pytest.mark.parametrize("answer_format", ANSWER_FORMATS)
@pytest.mark.parametrize(
    ("written", "reference"),
    [
        ("2 and a half", "2"),
        ("2 thirds of the cake", "2"),
        ("2 hundred and fifty", "200"),
        ("2 thousand five hundred", "2000"),
        ("18 minus three", "18"),
        ("18 is wrong, it is seven", "18"),
        ("18 squared", "18"),
        ("18⅛ apples", "18"),
        ("3 tenths", "3"),
        ("3 quarters of it", "3"),
    ],
)
def test_a_number_that_words_change_is_another_number(written, reference, answer_format):
    assert not grade_answer(f"#### {written}", reference, answer_format).correct


@pytest.mark.parametrize(
    "written", ["18 dozen", "18 or so", "18 - x apples", "18 isn't it", "18 twenty", "18 quarters"]
)
def test_an_ambiguous_mark_is_not_an_answer(written):
    grade = grade_answer(f"#### {written}", "18")
    assert (grade.answer, grade.correct) == (None, False)


def test_two_and_a_half_is_read():
    assert grade_answer("#### 2 and a half", "2.5").correct


GIBBERISH = (
    "e",
    "2e",
    "x",
    "A",
    r"\infty",
    r"-\infty",
    "18,20",
    "(1, 2)",
    r"\{18, 20\}",
    r"18 \pm 2",
    r"\sqrt{-1}",
    "18x",
)


@pytest.mark.parametrize("reference", ["18", r"2\sqrt{3}"])
@pytest.mark.parametrize("written", [*GIBBERISH, "3.14.15", "1/(2-2)", r"\frac{1}{(2-2)^{0.5}}", "x = y"])
def test_if_the_reference_is_a_number_only_a_number_is_an_answer(written, reference):
    assert grade_answer(f"#### {written}", reference).answer is None


@pytest.mark.parametrize(
    "written",
    ["18", "18 = x", "-18/7", "18/1", "5 + 13 = 18", "6 x 3 = 18", "$1,016 + $2 = $1018", "36/2 = 18", "55/3 = 18.33"],
)
def test_every_way_to_write_a_number_is_an_answer(written):
    assert grade_answer(f"#### {written}", "18").answer is not None


@pytest.mark.parametrize(
    "written", ["5 + 13", "9*2", "18 - 0", "36/2", r"\frac{36}{2}", r"2\sqrt{3}", r"\pi", "2^{99}", "18 (0)"]
)
def test_a_calculation_answers_only_a_question_whose_reference_is_one(written):
    grade = grade_answer(f"#### {written}", "18")
    assert (grade.answer, grade.correct) == (None, False)
    assert grade_answer(f"#### {written}", r"\sqrt{2}").answer is not None


def test_if_the_reference_is_not_a_number_any_readable_text_is_an_answer():
    grade = grade_answer("#### x", "#### x + 1")
    assert (grade.answer, grade.correct) == ("x", False)
    assert grade_answer("#### 18", "x + 1").answer == "18"


def test_the_lenient_reading_passes_over_a_mark_that_holds_no_number():
    assert grade_answer("so 18\n#### x", "18", answer_format="lenient").correct


def test_an_unknown_answer_format_is_refused():
    with pytest.raises(ValueError, match="'loose'; allowed: `strict`, `lenient`"):
        grade_answer("#### 4", "4", answer_format="loose")


def test_a_reference_is_a_text_or_a_bare_answer():
    assert reference_answer("steps\n#### 1,234") == "1234"
    assert reference_answer("$1,234") == "1234"
    with pytest.raises(ValueError, match=r"'who knows' .*final answer"):
        grade_answer("#### 4", "who knows")


def test_grades_agree_with_the_labels_of_real_solutions():
    folder = os.environ.get("PVG_GSM8K_DIR")
    if folder is None:
        pytest.skip("set PVG_GSM8K_DIR to a folder with GSM8K's test.jsonl and model_solutions.jsonl")
    references = [row["answer"] for row in read_json_lines(Path(folder) / "test.jsonl")]
    solutions = read_json_lines(Path(folder) / "model_solutions.jsonl")
    grades = [grade_answer(row["solution"], references[int(row["problem_id"][-4:])]) for row in solutions]
    assert len(grades) == 2638
    assert [grade.correct for grade in grades] == [row["is_correct"] for row in solutions]
    assert [grade.detail["lenient_correct"] for grade in grades] == [row["is_correct"] for row in solutions]
    unanswered = [index for index, grade in enumerate(grades) if grade.answer is None]
    assert unanswered == [300, 1186, 1266, 1872, 2529]  # the five texts that were cut off before `A:`


def read_json_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
