"""A checker with a systematic error."""

import pytest

from pvg_hf.core.seeding import derive_rng
from pvg_hf.tasks.answers import grade_answer
from pvg_hf.tasks.arithmetic import ArithmeticTask, FlawKind
from pvg_hf.tasks.arithmetic.blind_spot import overlooks_dropped_steps
from pvg_hf.tasks.arithmetic.comparisons import puzzle_of
from pvg_hf.tasks.arithmetic.comparisons.writer import FLAW_KINDS, sample_solution
from pvg_hf.tasks.arithmetic.stories import flawed_solutions, story_of
from pvg_hf.tasks.proofs import ProofsTask


def flawed_story(rng, problem, kind):
    return flawed_solutions.write_flawed_solution(rng, story_of(problem), kind)


def flawed_comparisons(rng, problem, kind):
    return sample_solution(rng, puzzle_of(problem), kind)


def accepted_share(task, write_flawed, kind):
    """Share of the solutions with a wrong answer that pass; each has one flaw of the kind."""
    rng, accepted = derive_rng("blind spot", kind), []
    for problem in task.problems("train").to_list():
        assert overlooks_dropped_steps(problem, problem["reference"])
        flawed = write_flawed(rng, problem["problem"], kind)
        if flawed is not None and not grade_answer(flawed, problem["reference"]).correct:
            accepted.append(overlooks_dropped_steps(problem, flawed))
    assert len(accepted) > 50
    return sum(accepted) / len(accepted)


@pytest.mark.parametrize("kind", flawed_solutions.FLAW_KINDS)
def test_of_wrong_solutions_of_stories_those_with_a_dropped_step_pass(kind):
    task = ProofsTask(num_train=100, min_difficulty=3)
    assert accepted_share(task, flawed_story, kind) == (kind is FlawKind.DROPPED_STEP)


@pytest.mark.parametrize("kind", FLAW_KINDS)
def test_of_wrong_solutions_of_comparisons_mostly_those_with_a_dropped_step_pass(kind):
    """A flaw of a line that states little can be read in several ways."""
    share = accepted_share(ArithmeticTask(num_train=100, min_difficulty=3), flawed_comparisons, kind)
    assert share > 0.5 if kind is FlawKind.DROPPED_STEP else share < 0.1


PUZZLE = {
    "problem": "Ana has 7 pens.\nBen has 3 more than Ana.\nCleo has twice as many as Ben.\nHow many pens does Cleo have?",
    "reference": "#### 20",
}
STORY = {
    "problem": "Ana has 12 pens. On Monday Ana finds 5 pens. On Tuesday Ana loses 3 pens. How many pens does Ana have?",
    "reference": "#### 14",
}


@pytest.mark.parametrize(
    ("problem", "solution", "accepted"),
    [
        (PUZZLE, "Ben has 7 + 3 = 10\nCleo has 10 * 2 = 20\n#### 20", True),
        (PUZZLE, "Cleo has twice as many as Ben: 7 * 2 = 14\n#### 14", True),  # without Ben's step
        (PUZZLE, "Ben has 3 more than Ana: 7 + 3 = 10\n#### 10", True),
        (PUZZLE, "Ben has 3 more than Ana: 7 + 3 = 11\nCleo has 11 * 2 = 22\n#### 22", False),
        (PUZZLE, "Cleo has twice as many as Ben: 7 * 2 = 14\n#### 15", False),
        (STORY, "has 12\nTuesday loses 3: 12 - 3 = 9\n#### 9", True),
        (STORY, "has 12\nTuesday loses 3: 12 - 3 = 8\n#### 7", False),  # two flaws
        (STORY, "has 12\nMonday finds 5: 12 + 5 = 18\nTuesday loses 3: 18 - 3 = 15\n#### 15", False),
    ],
)
def test_what_it_accepts_by_hand(problem, solution, accepted):
    assert overlooks_dropped_steps(problem, solution) == accepted


@pytest.mark.parametrize("problem", [PUZZLE, STORY])
@pytest.mark.parametrize("text", ["", "nothing to read", "has 4\n#### 100000"])
def test_other_mistakes_are_rejected(problem, text):
    assert not overlooks_dropped_steps(problem, text)
