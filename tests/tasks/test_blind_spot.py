"""A checker with a systematic error."""

import pytest

from pvg_hf.core.seeding import derive_rng
from pvg_hf.tasks.answers import grade_answer
from pvg_hf.tasks.arithmetic import ArithmeticTask, FlawKind, parse_story
from pvg_hf.tasks.arithmetic.blind_spot import overlooks_dropped_steps
from pvg_hf.tasks.arithmetic.stories.flawed_solutions import write_flawed_solution

WRITABLE = ("wrong_sum", "wrong_operand", "wrong_operation", "dropped_step", "contradicted_conclusion")


@pytest.mark.parametrize("kind", WRITABLE)
def test_dropped_steps_alone_pass(kind):
    rng, num_wrong = derive_rng("blind spot", kind), 0
    for problem in ArithmeticTask(num_train=40, min_difficulty=3).problems("train").to_list():
        assert overlooks_dropped_steps(problem, problem["reference"])
        flawed = write_flawed_solution(rng, parse_story(problem["problem"]), FlawKind(kind))
        if flawed is not None and not grade_answer(flawed, problem["reference"]).correct:
            num_wrong += 1
            assert overlooks_dropped_steps(problem, flawed) == (kind == "dropped_step")
    assert num_wrong > 10


@pytest.mark.parametrize("text", ["", "nothing to read", "has 4\n#### 100000"])
def test_other_mistakes_are_rejected(text):
    problem = ArithmeticTask(num_train=1).problems("train")[0]
    assert not overlooks_dropped_steps(problem, text)
