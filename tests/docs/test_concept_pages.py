"""The pages on concepts, terms and errors are complete and name only what exists."""

import ast
import re
from pathlib import Path

import pytest

from tests.test_layers import LAYERS
from tests.test_layers import walk as nodes_of

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
PACKAGE = REPOSITORY / "pvg_hf"
PAGES = [*sorted(DOCS.glob("*.md")), REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md"]
_PATH = re.compile(
    r"(?<![\w/])((?:pvg_hf|scripts|examples|benchmarks|pvg_hf.app|tests|recipes)/[\w./-]+\.(?:py|yaml))\b"
)
_DOTTED = re.compile(r"(?<![\w./-])pvg_hf(?:\.\w+)+")
_WALK = re.compile(
    r"^## (Where a reward's|Where a training|What happens on)[^\n]*\n(.*?)(?=^## )", re.DOTALL | re.MULTILINE
)


def _read(page: Path | str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page):
    named = set(_PATH.findall(_read(page)))
    made_up = {"recipes/mine.yaml"}  # the reader's own
    assert [path for path in sorted(named - made_up) if not (REPOSITORY / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_and_names_that_a_page_names_exist(page):
    assert [name for name in sorted(set(_DOTTED.findall(_read(page)))) if not _exists(name)] == []


def _exists(dotted: str) -> bool:
    """Whether a dotted name is a module, or a name in one; attributes of a class are not checked."""
    pieces = dotted.split(".")
    for length in range(len(pieces), 0, -1):
        path = REPOSITORY.joinpath(*pieces[:length])
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if file.exists():
            return length == len(pieces) or pieces[length] in _top_names(file)
    return False


def _top_names(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif file.name == "__init__.py" and isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)  # listed for a lazy import
    return names


def _walks() -> list[tuple[str, str, list[tuple[str, str, str]]]]:
    """Title, text and steps (number, file, name in the file) of each walk."""
    walks = _WALK.findall(_read("architecture.md"))
    assert len(walks) == 3
    return [
        (title, text, re.findall(r"^(\d+)\. `([\w/.]+)` \(`(\w+)`\): ", text, re.MULTILINE)) for title, text in walks
    ]


@pytest.mark.parametrize("walk", _walks(), ids=lambda walk: walk[0])
def test_each_walk_counts_its_files_and_names_what_is_in_them(walk):
    title, text, steps = walk
    assert [int(number) for number, _, _ in steps] == list(range(1, len(steps) + 1))
    assert len({path for _, path, _ in steps}) == len(steps)
    assert f": {len(steps)} files" in text
    assert [path for _, path, name in steps if name not in _top_names(REPOSITORY / path)] == []
    contributing = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    counts = re.findall(rf"^\| {title.lower()}[^|]* \| \d+ \| (\d+) \|$", contributing, re.MULTILINE)
    assert counts == [str(len(steps))]


@pytest.mark.parametrize("walk", _walks(), ids=lambda walk: walk[0])
def test_each_file_of_a_walk_is_imported_by_an_earlier_one(walk):
    paths = [REPOSITORY / path for _, path, _ in walk[2]]
    within_reach: set[Path] = {paths[0]}
    unreachable = []
    for path in paths:
        if path not in within_reach:
            unreachable.append(str(path.relative_to(REPOSITORY)))
        within_reach |= _imported_files(path)
    assert unreachable == []


def _imported_files(file: Path) -> set[Path]:
    """Files that a file imports when it runs; a name that a package passes on counts for the file that it comes from."""
    found: set[Path] = set()
    for node in nodes_of(ast.parse(file.read_text(encoding="utf-8")), with_types=False):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("pvg_hf"):
            found |= {_file_of(node.module, alias.name) for alias in node.names}
    return found


def _file_of(module: str, name: str) -> Path:
    path = REPOSITORY.joinpath(*module.split("."))
    if not path.is_dir():
        return path.with_suffix(".py")
    if (path / f"{name}.py").exists():
        return path / f"{name}.py"
    for node in ast.walk(ast.parse((path / "__init__.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and name in {alias.asname or alias.name for alias in node.names}:
            return _file_of(node.module, name)
    return path / "__init__.py"


def test_layers_are_those_that_the_imports_are_held_to():
    table = _read("architecture.md").split("\n## Layers\n")[1].split("\n## ")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    shown = [sorted(re.findall(r"`([\w.]+)`", cell)) for cell in cells[1:]]  # without the entry points
    expected = [sorted(part.removeprefix("pvg_hf.") for part in layer) for layer in reversed(LAYERS)]
    assert shown == expected


def test_the_example_is_shown_as_it_is():
    script = (REPOSITORY / "examples" / "one_round.py").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```python\n(.*?)^```$", _read("architecture.md"), re.DOTALL | re.MULTILINE)
    assert shown in script
    assert script.endswith(shown)


def test_every_exception_class_is_on_the_errors_page():
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")]
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    ours = {node.name for node in classes if any(re.search(r"(Error|Exception)$", ast.unparse(b)) for b in node.bases)}
    rows = set(re.findall(r"^\| `(\w+)` \(`\w+`\), `pvg_hf\.[\w.]+` \|", _read("errors.md"), re.MULTILINE))
    assert len(ours) > 10
    assert rows == ours


def test_errors_exist_in_the_modules_that_the_page_names():
    rows = re.findall(r"^\| `(\w+)` \(`(\w+)`\), `(pvg_hf[\w.]+)` \|", _read("errors.md"), re.MULTILINE)
    assert [name for name, _, module in rows if not _exists(f"{module}.{name}")] == []


def test_the_example_of_the_errors_page():
    (block,) = re.findall(r"^```python\n(.*?)^```$", _read("errors.md"), re.DOTALL | re.MULTILINE)
    names: dict[str, str] = {}
    exec(compile(block, "errors.md", "exec"), names)
    assert "`learning_rate`" in names["message"]


def test_every_source_that_is_named_by_a_code_is_in_the_glossary():
    files = [*PACKAGE.rglob("*.py"), *DOCS.glob("*.md"), *(REPOSITORY / "recipes").rglob("*.yaml")]
    used = {code for file in files for code in re.findall(r"\b[A-Z]{1,2}2[0-9]\b", file.read_text(encoding="utf-8"))}
    assert {"K24", "KL26"} <= used
    assert {code for code in used if f"| **{code}** |" not in _read("glossary.md")} == set()
