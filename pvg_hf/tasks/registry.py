"""Tasks by name."""

import inspect
from typing import Any

from pvg_hf.extensions import load_extension, running
from pvg_hf.suggestions import suggest
from pvg_hf.tasks.base import Task

TASKS = {
    "arithmetic": "pvg_hf.tasks.arithmetic:ArithmeticTask",
    "gsm8k": "pvg_hf.tasks.gsm8k:Gsm8kTask",
    "proofs": "pvg_hf.tasks.proofs:ProofsTask",
}
"""Registered names; a task is imported when it is asked for."""


def load_task(name: str, **options: Any) -> Task:
    """
    Make a task.

    Args:
        name (`str`):
            A key of `TASKS`, or the user's own as `package.module:Name`, a subclass of [`Task`].
        **options:
            Arguments of its class.

    Raises:
        ValueError: for an unknown name, something that is no task, an option that the class does not take or one that
            it misses, and whatever the class refuses; an `ExtensionError` for any other error of the class.

    Example:

    ```python
    task = load_task("arithmetic", num_train=2000, max_difficulty=6)
    problem = task.problems("train")[0]
    task.grade(problem, "has 3\\n#### 3").correct
    ```
    """
    task_class = find_task_class(name)
    _check_options(name, task_class, options)
    with running(f"The task `{name}`, made with the options {options!r:.80},", passes=(ValueError,)):
        return task_class(**options)


def find_task_class(name: str) -> type[Task]:
    """
    The class of a task, without its problems.

    Raises:
        ValueError: for an unknown name, or something that is no task.
    """
    if ":" not in name and name not in TASKS:
        raise ValueError(
            f"Unknown task `{name}`. {suggest(name, TASKS)} A task of your own is named as `package.module:Name`."
        )
    found = load_extension(TASKS.get(name, name), "task")
    if not (inspect.isclass(found) and issubclass(found, Task)):
        raise ValueError(
            f"Cannot load the task `{name}`: it must be a subclass of `pvg_hf.tasks.Task`, not {found!r}."
        )
    return found


def _check_options(name: str, task_class: type[Task], options: dict[str, Any]) -> None:
    parameters = inspect.signature(task_class).parameters.values()
    named = {p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    for option in options:
        if option not in named and not takes_any:
            raise ValueError(f"Unknown option `{option}` of task `{name}`. {suggest(option, named)}")
    missing = [p.name for p in named.values() if p.default is p.empty and p.name not in options]
    if missing:
        listed = ", ".join(f"`{option}`" for option in missing)
        raise ValueError(f"Task `{name}` needs the option {listed}.")
