"""Options of tasks that change the sandbox or name places are marked: a pulled recipe needs consent for them."""

import inspect
from contextlib import suppress

import pytest

from pvg_hf.experimental.programs.code import program_task
from pvg_hf.experimental.programs.functions import FunctionsTask
from pvg_hf.experimental.programs.sandbox.backends import is_weak, make_backends
from pvg_hf.tasks.base import Task
from pvg_hf.tasks.registry import TASKS, find_task_class

VALUES = (*make_backends(), "another", True, False, 0, 1, 2)
TEXT_WITHOUT_EFFECT = {"answer_format"}  # how an answer is read


@pytest.fixture
def find_sandbox(monkeypatch):
    """Returns what a task with some options asks of the sandbox, except the number of workers."""
    asked = []

    def record(**arguments):
        asked.append(arguments)
        raise ValueError("recorded")

    monkeypatch.setattr(program_task, "open_sandbox", record)

    def find(task_class: type[Task], **options) -> object:
        asked.clear()
        with suppress(ValueError, TypeError):  # an option that is refused, or the record
            task = task_class(**options)
            assert task.isolation is None  # opens the sandbox of a task that has one
        return [{name: value for name, value in one.items() if name != "num_workers"} for one in asked]

    return find


def _unmarked_changes(task_class: type[Task], find_sandbox) -> set[str]:
    usual = find_sandbox(task_class)
    changes = {
        option: found
        for option in inspect.signature(task_class).parameters
        for value in VALUES
        if (found := find_sandbox(task_class, **{option: value})) not in (usual, [])
    }
    return changes.keys() - task_class.asked_options.keys()


@pytest.mark.parametrize("name", TASKS)
def test_every_option_that_changes_the_sandbox_is_marked(name, find_sandbox):
    task_class = find_task_class(name)
    assert _unmarked_changes(task_class, find_sandbox) == set()
    if issubclass(task_class, program_task.ProgramTask):
        mark = task_class.asked_options["sandbox"]
        asked = {value for value in ("auto", *make_backends(), "another") if list(mark.settings("sandbox", value))}
        assert asked == {"none", "another"}


class _WithASwitch(FunctionsTask):
    def __init__(self, num_train: int = 50, isolated: bool = True):
        super().__init__(num_train=num_train, sandbox="auto" if isolated else "none")


def test_an_option_that_changes_the_sandbox_without_a_mark_is_found(find_sandbox):
    assert _unmarked_changes(_WithASwitch, find_sandbox) == {"isolated"}


@pytest.mark.parametrize("name", TASKS)
def test_every_option_that_can_name_something_is_marked(name):
    task_class = find_task_class(name)
    texts = {
        option
        for option, parameter in inspect.signature(task_class).parameters.items()
        if parameter.annotation not in (int, float, bool, int | None, float | None)
    }
    assert texts - TEXT_WITHOUT_EFFECT <= task_class.asked_options.keys()


def test_a_sandbox_of_an_unknown_name_counts_as_weak():
    assert [is_weak(name) for name in ("auto", "bubblewrap", "container", "none", "nobody", ["none"], None)] == [
        *[False] * 3,
        *[True] * 4,
    ]
