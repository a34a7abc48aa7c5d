import logging

import pytest

from pvg_hf.core.extensions import ExtensionError
from pvg_hf.tasks.base import FAILURE, Grade, TolerantGrader


def grade_number(problem, solution: str) -> Grade:
    """Fails on a text that is no number; returns no grade for 7, and one without its detail for 8."""
    number = int(solution)
    if number == 7:
        return None
    return Grade(solution, number == problem["reference"], detail={} if number == 8 else {"size": number})


def asked_about(solutions) -> list[tuple[dict, str]]:
    return [({"problem_id": "p-1", "reference": 3}, solution) for solution in solutions]


@pytest.mark.parametrize("num_threads", [1, 3])
def test_a_solution_on_which_a_grader_fails_has_no_answer_and_no_label(num_threads):
    grader = TolerantGrader(grade_number, name="The task `numbers`", detail=["size"])
    grades = grader(asked_about(["3", "x", "7", "8", "4"]), num_threads)
    assert [grade.label for grade in grades] == [1, None, None, None, 0]
    for grade, part in zip(grades[1:4], ("ValueError: invalid literal", "returns None", "`size`"), strict=True):
        assert (grade.answer, grade.correct, grade.certified, grade.detail["size"]) == (None, False, None, None)
        assert "The task `numbers`, asked about the problem `p-1`" in grade.detail[FAILURE]
        assert part in grade.detail[FAILURE]
    assert grader.take_counts() == (5, 3)
    assert grader.take_counts() == (0, 0)


def test_the_first_failure_is_logged_with_file_and_line(caplog):
    grader = TolerantGrader(grade_number)
    with caplog.at_level(logging.WARNING, logger="pvg_hf.tasks.base"):
        grader(asked_about(["3"]))
        grader(asked_about(["4", "x", "y"]))
        grader(asked_about(["z"]))
    [record] = caplog.records
    assert "'x'" in record.message
    assert "test_grade.py, line 11" in record.message


@pytest.mark.parametrize(
    ("num_sound", "num_failing", "is_broken"),
    [(0, 10, False), (0, 11, True), (99, 11, False), (98, 11, True), (1000, 101, False)],
)
def test_a_grader_that_fails_on_more_than_a_tenth_is_broken(num_sound, num_failing, is_broken):
    """More than ten failures are needed, so that a few solutions do not decide; batches do not matter."""
    grader = TolerantGrader(grade_number)
    grader(asked_about(["3"] * num_sound))
    grader(asked_about(["x"] * (num_failing - 1)))
    if is_broken:
        with pytest.raises(
            ExtensionError, match=rf"test_grade\.py, line 11.*{num_failing} of {num_sound + num_failing}"
        ):
            grader(asked_about(["x"]))
    else:
        grader(asked_about(["x"]))
