"""
Old import paths of what has moved to `pvg_hf.experimental`. They work for one release, with a warning, and go with
0.2.
"""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

MOVED = {
    "pvg_hf.attacks.attack_job": "pvg_hf.experimental.attacks.fresh_attacker",
    "pvg_hf.attacks.regression_set": "pvg_hf.experimental.attacks.attack_results",
    "pvg_hf.attacks": "pvg_hf.experimental.attacks",
    "pvg_hf.game.answerer": "pvg_hf.experimental.answering.answerer",
    "pvg_hf.judging.drawn_best_of_n": "pvg_hf.experimental.judging.drawn_pool",
    "pvg_hf.judging.listing": "pvg_hf.experimental.judging.round_evaluations",
    "pvg_hf.judging": "pvg_hf.experimental.judging",
    "pvg_hf.messages.message_losses": "pvg_hf.experimental.messages.game_modules",
    "pvg_hf.messages.message_run": "pvg_hf.experimental.messages.run",
    "pvg_hf.messages": "pvg_hf.experimental.messages",
    "pvg_hf.metrics.steps_to_exploit": "pvg_hf.experimental.attacks.steps_to_exploit",
    "pvg_hf.sandbox": "pvg_hf.experimental.programs.sandbox",
    "pvg_hf.scoring.causal_judge": "pvg_hf.experimental.judging.causal_judge",
    "pvg_hf.study": "pvg_hf.experimental.study",
    "pvg_hf.sweep": "pvg_hf.experimental.sweep",
    "pvg_hf.tasks.apps": "pvg_hf.experimental.programs.apps",
    "pvg_hf.tasks.code.extraction": "pvg_hf.experimental.programs.code.parsing",
    "pvg_hf.tasks.code": "pvg_hf.experimental.programs.code",
    "pvg_hf.tasks.decisions": "pvg_hf.experimental.messages.decisions",
    "pvg_hf.tasks.functions": "pvg_hf.experimental.programs.functions",
    "pvg_hf.tasks.mbpp": "pvg_hf.experimental.programs.mbpp",
}
"""New path of each old one, the inner ones first; the modules within follow."""


class _Copy(Loader):
    """Fills a module with the names of another one."""

    def __init__(self, source: str):
        self._source = source

    def create_module(self, spec: ModuleSpec) -> None:
        return None  # a new module

    def exec_module(self, module: ModuleType) -> None:
        warnings.warn(
            f"`{module.__name__}` is experimental and has moved to `{self._source}`; the old name goes with version"
            " 0.2.",
            DeprecationWarning,
            stacklevel=2,
        )
        names = vars(import_module(self._source)).items()
        vars(module).update((name, value) for name, value in names if not name.startswith("__"))


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        old = next((old for old in MOVED if f"{fullname}.".startswith(f"{old}.")), None)
        if old is None:
            return None
        new = MOVED[old] + fullname.removeprefix(old)
        return ModuleSpec(fullname, _Copy(new), is_package=True) if find_spec(new) else None


def keep_old_names() -> None:
    """Let the old paths be imported. It is called when `pvg_hf` is imported."""
    sys.meta_path.insert(0, _Finder())  # before folders that an update has left empty, which Python would import
