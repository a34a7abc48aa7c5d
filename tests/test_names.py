"""
A module's base name is used once, except where several modules implement one protocol; so is the name of a public class or
function.
"""

import ast
from collections import defaultdict
from fnmatch import fnmatch
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent

# Base names that several modules may have, with the patterns of those modules.
SHARED_NAMES = {
    # One module per trainer.
    "config": ("pvg_hf.config", "pvg_hf.trainers.*.config"),
    "metrics": ("pvg_hf.trainers.*.metrics", "pvg_hf.metrics"),
    "trainer": ("pvg_hf.trainers.*.trainer",),
    # One module per built-in task.
    "corpus": ("pvg_hf.tasks.*.corpus",),
    "task": ("pvg_hf.tasks.*.task",),
    # One module per version of the arithmetic world, and per task with steps that can be checked.
    "flaw_detection": ("pvg_hf.tasks.arithmetic.*.flaw_detection", "pvg_hf.tasks.proofs.flaw_detection"),
    "grammar": ("pvg_hf.tasks.arithmetic.*.grammar",),
    # Modules of phases are named after their phases.
    "prover": ("pvg_hf.game.phases.prover", "pvg_hf.trainers.prover"),
    # The loader of datasets of proofs, which users import, and the task that ships with such a dataset.
    "proofs": ("pvg_hf.data.proofs", "pvg_hf.tasks.proofs"),
}

# Functions that every version of the arithmetic world has.
OF_EACH_WORLD = {"check_solution", "reference_solution"}


def modules_by_base_name() -> dict[str, list[str]]:
    found = defaultdict(list)
    for path in sorted((REPOSITORY / "pvg_hf").rglob("*.py")):
        name = ".".join(path.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__")
        found[name.rpartition(".")[2]].append(name)
    return found


def test_modules_share_a_base_name_only_as_a_protocol():
    collisions = {
        base_name: others
        for base_name, modules in modules_by_base_name().items()
        if len(modules) > 1
        and (others := [name for name in modules if not _is_allowed(name, SHARED_NAMES.get(base_name, ()))])
    }
    assert collisions == {}, "Rename these modules, each by its content, or add a protocol to SHARED_NAMES."


def test_every_shared_name_is_still_shared():
    found = modules_by_base_name()
    assert [name for name in SHARED_NAMES if len(found[name]) < 2] == []
    unused = [
        pattern
        for base_name, patterns in SHARED_NAMES.items()
        for pattern in patterns
        if not any(fnmatch(name, pattern) for name in found[base_name])
    ]
    assert unused == []


def test_public_classes_and_functions_have_different_names():
    places = defaultdict(list)
    for path in sorted((REPOSITORY / "pvg_hf").rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                places[node.name].append(path.relative_to(REPOSITORY).as_posix())
    assert len(places) > 500
    shared = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert all(path.startswith("pvg_hf/tasks/arithmetic/") for name in OF_EACH_WORLD for path in shared[name])
    assert {name: paths for name, paths in shared.items() if name not in OF_EACH_WORLD} == {}


def _is_allowed(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)
