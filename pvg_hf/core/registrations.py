"""
Names of what `pvg_hf.experimental` adds to a game and its pages.

The core never imports `pvg_hf.experimental`. Where an experimental part has something to add, the core asks
[`registered`] for it, and imports it only then.
"""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

TASKS = {
    "apps": "pvg_hf.experimental.programs.apps:AppsTask",
    "functions": "pvg_hf.experimental.programs.functions:FunctionsTask",
    "mbpp": "pvg_hf.experimental.programs.mbpp:MbppTask",
}
"""Import path of each experimental task."""

_REGISTERED = {
    # Objects of the class `pvg_hf.evaluation.solution_kinds.SolutionKind`.
    "solution kind": ("pvg_hf.experimental.programs.in_games:PROGRAMS",),
    # Functions `(run) -> Plot | None` for the report.
    "plot": (
        "pvg_hf.experimental.programs.similarities_plot:plot_similarities",
        "pvg_hf.experimental.attacks.attack_curves:plot_attacks",
    ),
}


@cache
def registered(kind: str) -> tuple[Any, ...]:
    """Return what is registered as `"solution kind"` or `"plot"`: nothing without `pvg_hf.experimental`."""
    if find_spec("pvg_hf.experimental") is None:
        return ()
    paths = (path.split(":") for path in _REGISTERED[kind])
    return tuple(vars(import_module(module))[name] for module, name in paths)
