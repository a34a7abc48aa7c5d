"""A program on the page of solutions."""

from dataclasses import replace

import pytest

from pvg_hf.app.render import render
from pvg_hf.app.showing import GroundTruth, ShownSolution
from pvg_hf.experimental.programs.code import Certificate
from pvg_hf.experimental.programs.shown_programs import ShownProgram
from pvg_hf.report.escaping import Line

HONEST, WRONG = "def f(x):\n    return x + 1", "def f(x):\n    return x + 2"


@pytest.fixture
def hidden():
    program = ShownProgram(WRONG, True, 1.0, 0.5, 0.9, HONEST, Certificate("[0]", "1", "2"))
    return ShownSolution(0, [Line(line) for line in WRONG.split("\n")], 0.5, 50.0, True, None, program)


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


def test_a_program_in_prose_is_shown_as_written_until_it_is_revealed(hidden, verdict):
    """The program that counts is the final answer, which stays hidden."""
    prose = replace(hidden, lines=[Line("I add two."), *hidden.lines], program=replace(hidden.program, is_whole=False))
    assert 'class="program"' not in render("solution", role="sneaky", solution=prose)
    page = render("solution", role="sneaky", solution=replace(prose, verdict=verdict))
    assert 'class="program"' in page
    assert "I add two." in page
