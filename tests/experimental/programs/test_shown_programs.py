"""Programs, prepared for pages."""

import pytest

from pvg_hf.experimental.programs.code import PROGRAM_COLUMNS, Certificate
from pvg_hf.experimental.programs.in_games import PROGRAMS
from pvg_hf.experimental.programs.shown_programs import nearest_program, prepare_program

HONEST = "def f(xs):\n    return sum(x for x in xs if x > 4)"
OTHER = "def f(xs):\n    total = 0\n    for x in xs:\n        if x > 4:\n            total += x\n    return total"
WRONG = "def f(xs):\n    return sum(x for x in xs if x >= 4)"
ROW = {
    **dict.fromkeys(PROGRAM_COLUMNS),
    "solution": f"{WRONG}\n",
    "answer": WRONG,
    "correct": False,
    "visible_pass_rate": 1.0,
    "hidden_pass_rate": 0.75,
    "similarity": 0.95,
    "failing_input": "[[4]]",
    "expected_output": "0",
    "program_output": "4",
}


@pytest.fixture
def render():
    def show(row, honest):
        shown = PROGRAMS.show({"outcome": "PROOF_INVALID", "reference": honest, **row}, [])
        return shown.text + shown.details

    return show


def test_an_incorrect_program_stands_next_to_the_nearest_honest_one():
    shown = prepare_program(ROW, [OTHER, HONEST])
    assert shown.honest == HONEST
    assert shown.certificate == Certificate("[[4]]", "0", "4")
    assert shown.is_whole
    assert (shown.visible_pass_rate, shown.hidden_pass_rate, shown.similarity) == (1.0, 0.75, 0.95)


def test_a_correct_program_has_no_certificate_and_no_difference(render):
    right = ROW | {"correct": True, "failing_input": None, "expected_output": None, "program_output": None}
    shown = prepare_program(right, [HONEST])
    assert (shown.honest, shown.certificate) == (None, None)
    assert "Certificate" not in render(right, HONEST)


@pytest.mark.parametrize(
    "row", [{**ROW, "answer": None}, {"answer": "18", "correct": True}], ids=["no program", "another task"]
)
def test_other_solutions_have_no_program(row):
    assert prepare_program(row, [HONEST]) is None


def test_prose_around_a_program_is_kept():
    assert not prepare_program(ROW | {"solution": f"I sum them.\n{WRONG}"}, [HONEST]).is_whole


def test_a_sandbox_that_failed_is_named(render):
    missing = {"visible_pass_rate": None, "hidden_pass_rate": None, "failing_input": None}
    assert "could not run it" in render(ROW | missing, HONEST)


def test_the_page_has_program_difference_input_and_both_outputs(render):
    page = render(ROW, HONEST)
    assert "def f(xs):" in page
    assert "100 % of the visible and 75 % of the hidden tests passed" in page
    for text in ("<pre>[[4]]</pre>", "<pre>0</pre>", "<pre>4</pre>", "<del>- ", "<ins>+ "):
        assert text in page


def test_without_an_honest_program_there_is_nothing_to_compare_with():
    assert nearest_program(WRONG, []) is None
