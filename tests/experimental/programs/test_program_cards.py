"""A program on the page of solutions."""

from dataclasses import replace

import pytest

from pvg_hf.app.render import render
from pvg_hf.app.showing import GroundTruth, ShownSolution
from pvg_hf.experimental.programs.code import PROGRAM_COLUMNS
from pvg_hf.experimental.programs.in_games import PROGRAMS
from pvg_hf.report.escaping import Line

HONEST, WRONG = "def f(x):\n    return x + 1", "def f(x):\n    return x + 2"
ROW = {
    **dict.fromkeys(PROGRAM_COLUMNS),
    **{"solution": WRONG, "answer": WRONG, "correct": False, "outcome": "PROOF_INVALID", "reference": HONEST},
    **{"visible_pass_rate": 1.0, "hidden_pass_rate": 0.5, "similarity": 0.9},
    **{"failing_input": "[0]", "expected_output": "1", "program_output": "2"},
}


def shown(solution: str) -> ShownSolution:
    special = PROGRAMS.show({**ROW, "solution": solution}, [])
    return ShownSolution(0, [Line(line) for line in solution.split("\n")], 0.5, 50.0, True, None, special)


@pytest.fixture
def hidden():
    return shown(WRONG)


@pytest.fixture
def verdict():
    return GroundTruth(correct=False, answer=WRONG, outcome="PROOF_INVALID", flaw=None, knows_flaws=False)


def test_a_program_is_shown_and_its_verdict_hidden(hidden):
    page = render("solution", role="sneaky", solution=hidden)
    assert "return x + 2" in page
    for part in ("Certificate", "<del>", "tests passed", "Similarity", "Incorrect"):
        assert part not in page


def test_revealing_shows_certificate_and_difference(hidden, verdict):
    page = render("solution", role="sneaky", solution=replace(hidden, verdict=verdict))
    for part in ("certified to be wrong", "<pre>[0]</pre>", "<pre>1</pre>", "<pre>2</pre>", "<del>- ", "<ins>+ "):
        assert part in page


def test_a_program_in_prose_is_shown_as_written_until_it_is_revealed(verdict):
    """The program that counts is the final answer, which stays hidden."""
    prose = shown(f"I add two.\n{WRONG}")
    assert 'class="program"' not in render("solution", role="sneaky", solution=prose)
    page = render("solution", role="sneaky", solution=replace(prose, verdict=verdict))
    assert 'class="program"' in page
    assert "I add two." in page
