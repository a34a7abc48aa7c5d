"""The registry of tasks by name."""

import inspect
from types import NoneType
from typing import Any, get_args

from pvg_hf.core import registrations
from pvg_hf.core.extensions import cut_to_line, load_extension, running, show_value, suggest
from pvg_hf.tasks.base import Task

TASKS = {
    "arithmetic": "pvg_hf.tasks.arithmetic:ArithmeticTask",
    "gsm8k": "pvg_hf.tasks.gsm8k:Gsm8kTask",
    "proofs": "pvg_hf.tasks.proofs:ProofsTask",
    **registrations.TASKS,
}
"""Import path of each registered task; a task is imported when it is first used."""

MAX_NUMBER = 10**7  # of problems etc.; a larger number is surely a typing error
_TYPE_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "text", NoneType: "null"}


def load_task(name: str, /, **options: Any) -> Task:
    """
    Construct a task from its name and options.

    Args:
        name (`str`):
            A key of `TASKS`, or a custom subclass of [`Task`] as `package.module:Name`.
        **options:
            Arguments of the class.

    Raises:
        ValueError: for an unknown name, a class that is not a task, and an unknown or missing option. Errors that the
            class raises with this type pass unchanged; any other becomes an `ExtensionError`.

    Example:

    ```python
    task = load_task("arithmetic", num_train=2000, max_difficulty=6)
    problem = task.problems("train")[0]
    task.grade(problem, "Ana has 3\\n#### 3").correct
    ```
    """
    task_class = find_task_class(name)
    _check_options(name, task_class, options)
    with running(f"The task `{name}`, made with the options {options!r:.80},", passes=(ValueError,)):
        return task_class(**options)


def find_task_class(name: str) -> type[Task]:
    """Return a task's class. Raises `ValueError` for an unknown name, or an object that is not a task class."""
    if ":" not in name and name not in TASKS:
        raise ValueError(
            f"Unknown task `{cut_to_line(name)}`. {suggest(name, TASKS)} Name a custom task as `package.module:Name`."
        )
    found = load_extension(TASKS.get(name, name), "task")
    if not (inspect.isclass(found) and issubclass(found, Task)):
        # The object itself is not shown: it may hold what is private, such as `os:environ`.
        kind = f"the class `{found.__name__}`" if inspect.isclass(found) else f"of type `{type(found).__name__}`"
        raise ValueError(
            f"Cannot load the task `{name}`: it must be a subclass of `pvg_hf.tasks.Task`, and it is {kind}."
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
    # YAML reads unquoted numbers and `on` as numbers and booleans. Only plain annotations are checked; a custom task
    # may use any other type.
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
