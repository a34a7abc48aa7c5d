"""Tasks by name."""

import inspect
from types import NoneType
from typing import Any, get_args

from pvg_hf.core.extensions import cut_to_line, load_extension, running, show_value, suggest
from pvg_hf.tasks.base import Task

TASKS = {
    "arithmetic": "pvg_hf.tasks.arithmetic:ArithmeticTask",
    "gsm8k": "pvg_hf.tasks.gsm8k:Gsm8kTask",
    "proofs": "pvg_hf.tasks.proofs:ProofsTask",
}
"""Registered names; a task is imported when it is asked for."""

MAX_NUMBER = 10**7  # of problems and the like; more is a slip of the pen
_TYPE_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "text", NoneType: "null"}


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
            f"Unknown task `{cut_to_line(name)}`. {suggest(name, TASKS)} A task of your own is named as `package.module:Name`."
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
    for option, value in options.items():
        _check_type(name, option, value, named.get(option))
    missing = [p.name for p in named.values() if p.default is p.empty and p.name not in options]
    if missing:
        listed = ", ".join(f"`{option}`" for option in missing)
        raise ValueError(f"Task `{name}` needs the option {listed}.")


def _check_type(task: str, option: str, value: object, parameter: inspect.Parameter | None) -> None:
    """Refuse a value of another type than a parameter of plain values states; YAML's numbers have no quotes and no `on`."""
    stated = None if parameter is None else parameter.annotation
    allowed = get_args(stated) or (stated,)
    if not set(allowed) <= {bool, int, float, str, NoneType}:
        return
    taken = {*allowed, int} if float in allowed else set(allowed)
    if type(value) not in taken:
        names = " or ".join(_TYPE_NAMES[kind] for kind in allowed)
        raise ValueError(f"The option `{option}` of task `{task}` must be {names}; got {show_value(value)}.")
    if type(value) is int and option.startswith("num_") and value > MAX_NUMBER:
        raise ValueError(f"The option `{option}` of task `{task}` must be at most {MAX_NUMBER:,}; got {value}.")
