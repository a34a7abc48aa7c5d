"""A program on the page of solutions."""

from pvg_hf.app.index import ListedSolution
from pvg_hf.app.render import render
from pvg_hf.app.showing import ShownSolution
from pvg_hf.core.roles import Role
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


LISTED = ListedSolution(
    *("0ts0", (0, 0), 0, True, "p", Role.SNEAKY, 0, False, "PROOF_INVALID", 0.5, True, (0,)),
    *(None, None, 0.5, 12, None),
)


def shown(solution: str) -> str:
    special = PROGRAMS.show({**ROW, "solution": solution}, [])
    lines = [Line(line) for line in solution.split("\n")]
    of_page = ShownSolution(LISTED, lines, solution, 50.0, False, special)
    return render("solution", role="sneaky", solution=of_page, choices=[LISTED], links={"0ts0": "?"})


def test_a_program_is_shown_with_its_certificate_and_difference():
    page = shown(WRONG)
    assert "return x + 2" in page
    for part in ("certified to be wrong", "<pre>[0]</pre>", "<pre>1</pre>", "<pre>2</pre>", "<del>- ", "<ins>+ "):
        assert part in page
    assert "fools verifier 0" in page


def test_a_program_in_prose_is_shown_with_the_prose():
    page = shown(f"I add two.\n{WRONG}")
    assert 'class="program"' in page
    assert "I add two." in page
