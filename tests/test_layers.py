"""Imports point one way only, and the lower layers need no torch."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

import pvg_hf

REPOSITORY = Path(__file__).parent.parent
PACKAGE = REPOSITORY / "pvg_hf"

# From the bottom up. A module belongs to the layer of the longest prefix of its name; it may import from its own part
# of the package and from the layers below.
LAYERS = (
    ("pvg_hf.core",),
    ("pvg_hf.analyses",),
    ("pvg_hf.config",),
    ("pvg_hf.tasks",),
    ("pvg_hf.noise.rates",),
    ("pvg_hf.losses", "pvg_hf.noise", "pvg_hf.rewards"),
    ("pvg_hf.data",),
    ("pvg_hf.models",),
    ("pvg_hf.sampling",),
    ("pvg_hf.scoring",),
    ("pvg_hf.trainers",),
    ("pvg_hf.run",),
    ("pvg_hf.evaluation",),
    ("pvg_hf.report", "pvg_hf.metrics"),
    ("pvg_hf.hub",),
    ("pvg_hf.check",),
    ("pvg_hf.game",),
    ("pvg_hf.app",),
    # The wall: nothing above this line imports anything below it.
    ("pvg_hf.experimental",),
    ("pvg_hf.cli",),  # the command, which names what is experimental and imports it when it is asked for
    ("pvg_hf.__main__",),
)
LEVELS = {part: level for level, parts in enumerate(LAYERS) for part in parts}
WITHOUT_TORCH = ("analyses", "config", "core", "data", "tasks")
NEEDS_TORCH = {"accelerate", "peft", "torch", "transformers", "trl"}
OUTSIDE = {"benchmarks", "examples", "experiments", "scripts", "tests", "tools"}  # not in the wheel
# They name experimental parts, which are imported when they are asked for.
REGISTRATIONS = ("pvg_hf.core.registrations", "pvg_hf.core.moved_names")
# Modules that a lower layer names, and imports when it is asked for.
NAMED = {
    "pvg_hf.config.player_sections": {"pvg_hf.game.phases.verifier"},  # classes of the kinds of verifiers
    "pvg_hf.config.trust": {"pvg_hf.tasks.registry"},  # marks on the options of tasks
}
_DOTTED = re.compile(
    r"(pvg_hf(?:\.\w+)+)(?::\w+)?"
)  # a module that is imported by its name, as in `PACKAGE.MODULE:NAME`

MODULES = [
    path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py"
]  # which is the front door


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__")


def part_of(module: str) -> str:
    """The longest prefix of a module's name that has a layer."""
    pieces = module.split(".")
    prefixes = (".".join(pieces[:length]) for length in range(len(pieces), 1, -1))
    found = next((prefix for prefix in prefixes if prefix in LEVELS), None)
    assert found is not None, f"`{module}` belongs to no layer: add it to LAYERS."
    return found


def is_for_types_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def walk(node: ast.AST, *, with_types: bool) -> Iterator[ast.AST]:
    """All nodes, also those inside functions."""
    yield node
    for child in ast.iter_child_nodes(node):
        if with_types or not is_for_types_only(child):
            yield from walk(child, with_types=with_types)


def imported_modules(path: Path, *, with_types: bool = True) -> set[str]:
    """Modules that a file imports at its top, within functions, or by a name in a string."""
    found: set[str] = set()
    for node in walk(ast.parse(path.read_text(encoding="utf-8")), with_types=with_types):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import."
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names if node.module == "pvg_hf")}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            match = _DOTTED.fullmatch(node.value)
            found |= {match[1]} if match else set()
    return found


def test_modules_are_found():
    assert len(MODULES) > 50
    assert {"pvg_hf.scoring", "pvg_hf.models.verifier_model"} <= imported_modules(PACKAGE / "game" / "context.py")
    assert "pvg_hf.tasks.arithmetic" in imported_modules(PACKAGE / "tasks" / "registry.py")  # by a name in a string


def test_imports_point_down():
    upwards = {}
    for path in MODULES:
        own = part_of(module_name(path))
        if module_name(path) in REGISTRATIONS:
            continue
        modules = imported_modules(path) - NAMED.get(module_name(path), set())
        imported = {part_of(module) for module in modules if module.startswith("pvg_hf.")} - {own}
        upwards[module_name(path)] = sorted(part for part in imported if LEVELS[part] >= LEVELS[own])
    assert {module: parts for module, parts in upwards.items() if parts} == {}


def imports_of_experimental(path: Path) -> set[str]:
    return {name for name in imported_modules(path) if name.startswith("pvg_hf.experimental")}


def test_the_core_never_imports_what_is_experimental():
    above = {PACKAGE / "experimental", PACKAGE / "cli"}  # the command runs what is experimental, too
    core = [path for path in MODULES if above.isdisjoint(path.parents)]
    found = {module_name(path): imports_of_experimental(path) for path in core}
    assert all(found.pop(name) for name in REGISTRATIONS)
    assert {module: names for module, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "line",
    [
        "import pvg_hf.experimental.sweep",
        "from pvg_hf.experimental import sweep",
        "def late():\n    from pvg_hf.experimental.sweep.cells import Cell",
        'NAME = "pvg_hf.experimental.sweep:Cell"',
    ],
)
def test_a_wrong_import_is_found(tmp_path, line):
    (tmp_path / "module.py").write_text(line)
    assert imports_of_experimental(tmp_path / "module.py")


def test_the_wheel_imports_nothing_outside_it():
    used = {module_name(path): {name.split(".")[0] for name in imported_modules(path)} & OUTSIDE for path in MODULES}
    assert {module: entry_points for module, entry_points in used.items() if entry_points} == {}


def test_every_imported_package_is_a_stated_requirement():
    """Not only one that another requirement happens to bring."""
    setup = ConfigParser()
    setup.read(REPOSITORY / "setup.cfg", encoding="utf-8")
    extras = setup["options.extras_require"]
    stated = [setup["options"]["install_requires"], *(extras[name] for name in extras if name not in ("dev", "docs"))]
    required = {canonicalize_name(re.split("[<>=]", line)[0]) for line in "\n".join(stated).split()}
    installed, missing = packages_distributions(), {}
    for path in MODULES:
        packages = {name.split(".")[0] for name in imported_modules(path)} - sys.stdlib_module_names - {"pvg_hf"}
        names = {name: {*map(canonicalize_name, installed.get(name, [name]))} for name in packages}
        missing[module_name(path)] = sorted(name for name in names if not names[name] & required)
    assert {module: names for module, names in missing.items() if names} == {}


def test_lower_layers_need_no_torch():
    lower = [path for path in MODULES if path.relative_to(PACKAGE).parts[0] in WITHOUT_TORCH]
    assert len(lower) > 20
    used = {
        module_name(path): {name.split(".")[0] for name in imported_modules(path, with_types=False)} & NEEDS_TORCH
        for path in lower
    }
    assert {module: names for module, names in used.items() if names} == {}
    # Nor does anything that they import, in turn.
    check = (
        f"import importlib, sys; [importlib.import_module(name) for name in {sorted(map(module_name, lower))}]; "
        f"print(*sorted({NEEDS_TORCH} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""


def test_importing_the_package_imports_no_torch():
    check = "import sys, pvg_hf; print(*sorted({'torch', 'transformers', 'trl', 'datasets'} & set(sys.modules)))"
    assert (
        subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout.strip() == ""
    )


def test_every_public_name_can_be_imported_and_is_listed():
    assert set(pvg_hf.__all__) <= set(dir(pvg_hf))
    assert [name for name in pvg_hf.__all__ if getattr(pvg_hf, name).__name__ != name] == []
    with pytest.raises(AttributeError, match="'no_such_name'"):
        pvg_hf.no_such_name  # noqa: B018
