"""A checker with a systematic error."""

import pytest

from pvg_hf.core.seeding import derive_rng
from pvg_hf.tasks.answers import grade_answer
from pvg_hf.tasks.arithmetic import ArithmeticTask, FlawKind
from pvg_hf.tasks.arithmetic.blind_spot import overlooks_dropped_steps
from pvg_hf.tasks.arithmetic.grammar import puzzle_of
from pvg_hf.tasks.arithmetic.writer import FLAW_KINDS, sample_solution


@pytest.mark.parametrize("kind", FLAW_KINDS)
def test_of_wrong_solutions_mostly_those_with_a_dropped_step_pass(kind):
    """A flaw of a line that states little can be read in several ways."""
    rng, accepted = derive_rng("blind spot", kind), []
    for problem in ArithmeticTask(num_train=100, min_difficulty=3).problems("train").to_list():
        assert overlooks_dropped_steps(problem, problem["reference"])
        flawed = sample_solution(rng, puzzle_of(problem["problem"]), kind)
        if not grade_answer(flawed, problem["reference"]).correct:
            accepted.append(overlooks_dropped_steps(problem, flawed))
    assert len(accepted) > 50
    share = sum(accepted) / len(accepted)
    assert share > 0.5 if kind is FlawKind.DROPPED_STEP else share < 0.1


PUZZLE = {
    "problem": (
        "Ana has 7 pens.\nBen has 3 more than Ana.\nCleo has twice as many as Ben.\nHow many pens does Cleo have?"
    ),
    "reference": "#### 20",
}


@pytest.mark.parametrize(
    ("solution", "accepted"),
    [
        ("Ben has 7 + 3 = 10\nCleo has 10 * 2 = 20\n#### 20", True),
        ("Cleo has twice as many as Ben: 7 * 2 = 14\n#### 14", True),  # without Ben's step
        ("Ben has 3 more than Ana: 7 + 3 = 10\n#### 10", True),
        ("Ben has 3 more than Ana: 7 + 3 = 11\nCleo has 11 * 2 = 22\n#### 22", False),
        ("Cleo has twice as many as Ben: 7 * 2 = 14\n#### 15", False),
    ],
)
def test_what_it_accepts_by_hand(solution, accepted):
    assert overlooks_dropped_steps(PUZZLE, solution) == accepted


@pytest.mark.parametrize("text", ["", "nothing to read", "has 4\n#### 100000"])
def test_other_mistakes_are_rejected(text):
    assert not overlooks_dropped_steps(PUZZLE, text)
