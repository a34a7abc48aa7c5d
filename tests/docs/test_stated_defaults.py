"""Defaults that docstrings state are those of the code."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "pvg_hf"
STATED = re.compile(r"(\w+) \([^()]*, defaults to `?(.+?)`?\)(?=[:,])")  # `name (TYPE, defaults to VALUE):`


def is_literal(text: str) -> bool:
    """Whether a default is a value, and not a name or a description such as `all`."""
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return False
    return True


def stated_defaults() -> list[tuple[str, str, dict[str, str]]]:
    """Module, qualified name and stated defaults of every class and function whose docstring has some."""
    found = []

    def visit(module: str, node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.ClassDef | ast.FunctionDef):
                continue
            name = f"{prefix}{child.name}"
            found_here = STATED.findall(ast.get_docstring(child) or "")
            stated = {argument: default for argument, default in found_here if is_literal(default)}
            if stated:
                found.append((module, name, stated))
            visit(module, child, f"{name}.")

    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        visit(module, ast.parse(path.read_text(encoding="utf-8")), "")
    return found


CASES = stated_defaults()


@pytest.mark.parametrize(("module", "name", "stated"), CASES, ids=[f"{module}:{name}" for module, name, _ in CASES])
def test_stated_defaults_are_those_of_the_code(module, name, stated):
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    parameters = inspect.signature(found).parameters
    for argument, default in stated.items():
        assert parameters[argument].default == ast.literal_eval(default), argument


def test_many_docstrings_state_defaults():
    assert sum(len(stated) for *_, stated in CASES) > 100
