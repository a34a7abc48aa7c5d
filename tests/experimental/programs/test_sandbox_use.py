"""Counts of what the sandbox did in a phase."""

from typing import Any

import pytest

from pvg_hf.config import load_recipe
from pvg_hf.data.problems import GameProblems
from pvg_hf.game.context import GameTracker, PhaseContext
from pvg_hf.game.interrupt import StopRequest
from pvg_hf.game.play import take_use
from pvg_hf.run.layout import PhaseKey, RunFolder


class KeptValues:
    """A tracker that keeps what it is sent."""

    name = "kept"

    def __init__(self):
        self.values: dict[str, Any] = {}

    def log(self, values, step):
        self.values |= values


@pytest.fixture
def make_context(tmp_path):
    def make(task: str, **options) -> tuple[PhaseContext, KeptValues]:
        options |= {"num_train": 60, "num_test": 4}
        recipe = load_recipe({"name": "use", "output_dir": str(tmp_path), "task": {"name": task, "options": options}})
        kept = KeptValues()
        context = PhaseContext(
            recipe,
            RunFolder.of(recipe),
            PhaseKey("mint", 0),
            GameProblems.load(recipe),
            StopRequest(),
            tracker=GameTracker([kept]),
        )
        return context, kept

    return make


def test_each_use_is_counted_once(make_context):
    context, kept = make_context("functions", sandbox="none")
    assert take_use(context.problems.task, context.track) is None
    task, problem = context.problems.task, context.problems.parts["test"][0]
    num_tests = 0
    for _ in range(2):
        grade = task.grade(problem, problem["reference"])
        assert grade.correct
        num_tests += grade.detail["num_passed"]
    use = take_use(task, context.track)
    assert use.pop("seconds") > 0
    # A program that passes is run again with another seed.
    assert use == {"programs": 2, "cache_hits": 2, "cases/passed": 2 * num_tests}
    assert kept.values["task/cache_hits"] == 2
    assert kept.values["task/cases/passed"] == 2 * num_tests
    assert take_use(task, context.track) is None


def test_a_task_without_programs_uses_no_sandbox(make_context):
    context, kept = make_context("arithmetic")
    assert take_use(context.problems.task, context.track) is None
    assert context.problems.task.isolation is None
    assert kept.values == {}
