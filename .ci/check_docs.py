"""
Check what the documentation says against the repository: files, names, links, commands, defaults and lists.

Each check yields messages; any message fails `make quality`.
"""

import ast
import importlib
import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from configparser import ConfigParser
from functools import cache
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
PACKAGE = ROOT / "pvg_hf"
SOURCES = sorted(PACKAGE.rglob("*.py"))
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]

FOLDERS = "pvg_hf|scripts|examples|benchmarks|experiments|tools|space_app|tests|recipes"
PATH = re.compile(rf"(?<![\w/])((?:{FOLDERS})/[\w./-]+\.(?:py|yaml))\b")
OF_THE_READER = {"recipes/mine.yaml"}
DOTTED = re.compile(r"(?<![\w./-])pvg_hf(?:\.\w+)+")
STEP = re.compile(r"^\d+\. \**`([\w/.]+)`\** \(`(\w+)`\)", re.MULTILINE)  # of a walk through the code
CODE_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^()\s]+)\)")
STATED = re.compile(r"(\w+) \([^()]*, defaults to `?(.+?)`?\)(?=[:,])")  # `name (TYPE, defaults to VALUE):`
ERROR = re.compile(r"^\| `(\w+)` \(`\w+`\), `(pvg_hf[\w.]+)` \|", re.MULTILINE)
SOURCE = re.compile(r"\b[A-Z]{1,2}2[0-9]\b")  # a paper, such as K24


@cache
def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(read(path))


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def top_names(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(parse(file)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif file.name == "__init__.py" and isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)  # listed for a lazy import
    return names


def is_known(dotted: str) -> bool:
    """Whether a dotted name is a module, or a name in one; attributes of a class are not checked."""
    pieces = dotted.split(".")
    for length in range(len(pieces), 0, -1):
        path = ROOT.joinpath(*pieces[:length])
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if file.exists():
            return length == len(pieces) or pieces[length] in top_names(file)
    return False


def check_names() -> Iterator[str]:
    """Files, modules and functions that a page names exist."""
    for page in PAGES:
        if page.name == "CHANGELOG.md":  # which also names what is gone
            continue
        text = read(page)
        yield from (
            f"{page.name}: {path} does not exist"
            for path in sorted(set(PATH.findall(text)) - OF_THE_READER)
            if not (ROOT / path).exists()
        )
        yield from (
            f"{page.name}: {name} does not exist" for name in sorted(set(DOTTED.findall(text))) if not is_known(name)
        )
        yield from (
            f"{page.name}: {path} has no `{name}`"
            for path, name in STEP.findall(text)
            if (ROOT / path).suffix == ".py" and (ROOT / path).exists() and name not in top_names(ROOT / path)
        )


def without_code(page: Path) -> str:
    return CODE_BLOCK.sub("", read(page))


@cache
def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of the page's headings."""
    headings = re.findall(r"^#+ (.*)$", without_code(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_links() -> Iterator[str]:
    """Relative links lead to a file, and to a heading of it."""
    for page in PAGES:
        for link in LINK.findall(without_code(page)):
            name, _, anchor = link.partition("#")
            target = page.parent / name if name else page
            if re.match(r"\w+:", link):
                continue
            if not target.exists() or (anchor and anchor not in anchors(target)):
                yield f"{page.name}: the link {link} leads nowhere"


def check_commands() -> Iterator[str]:
    """`make` targets of the pages exist, and the package is installed from a clone, with the tested versions."""
    targets = set(re.findall(r"^([a-z-]+):", read(ROOT / "Makefile"), re.MULTILINE))
    extras = setup()["options.extras_require"]
    for page in PAGES:
        shown = "\n".join(text for language, text in CODE_BLOCK.findall(read(page)) if language in ("bash", "sh"))
        for name in re.findall(r"^make ([a-z-]+)", shown, re.MULTILINE):
            if name not in targets:
                yield f"{page.name}: the Makefile has no target {name}"
    places = [ROOT / folder for folder in ("docs", "recipes", "pvg_hf", "scripts")]
    files = [
        path for place in places for path in place.rglob("*.*") if path.suffix in (".md", ".yaml", ".py", ".jinja")
    ]
    for path in (*files, ROOT / "README.md"):
        for command in re.findall(r"pip install[^`\n]*", read(path)):
            # No index has it: what an index has of this name, now or one day, is somebody else's.
            if re.search(r"install +['\"]?pvg[_-]hf", command):
                yield f"{path.name}: `{command}` takes the package from an index"
            if "-e '.[" in command and "-c constraints.txt" not in command:
                yield f"{path.name}: `{command}` does not name constraints.txt"
    for path in SOURCES:
        for extra in re.findall(r"install_extra\(['\"](\w+)", read(path)):
            if extra not in extras:
                yield f"{module_of(path)}: setup.cfg has no extra `{extra}`"


@cache
def setup() -> ConfigParser:
    parser = ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def stated_defaults(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Qualified name and stated defaults of every class and function whose docstring has some."""

    def visit(node: ast.AST, prefix: str) -> Iterator[tuple[str, dict[str, str]]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef):
                stated = dict(STATED.findall(ast.get_docstring(child) or ""))
                if stated:
                    yield prefix + child.name, stated
                yield from visit(child, f"{prefix}{child.name}.")

    yield from visit(parse(path), "")


def check_defaults() -> Iterator[str]:
    """Defaults that docstrings state are those of the code."""
    for path in SOURCES:
        for name, stated in stated_defaults(path):
            found = importlib.import_module(module_of(path))
            for part in name.split("."):
                found = getattr(found, part)
            parameters = inspect.signature(found).parameters
            for argument, text in stated.items():
                try:
                    value = ast.literal_eval(text)
                except (ValueError, SyntaxError):
                    continue  # a name, or a description such as `all`
                default = parameters[argument].default if argument in parameters else None
                if default != value:
                    yield f"{module_of(path)}.{name}: `{argument}` is said to be {text}, and is {default!r}"


def check_lists() -> Iterator[str]:
    """The index has every page, the errors page every exception class, and the glossary every paper."""
    index = ROOT / "docs" / "index.md"
    listed = {index, *((index.parent / link).resolve() for link in LINK.findall(read(index)))}
    yield from (f"docs/index.md lacks {page}" for page in PAGES if index.parent in page.parents and page not in listed)
    classes = [(path, node) for path in SOURCES for node in ast.walk(parse(path)) if isinstance(node, ast.ClassDef)]
    raised = {
        node.name for _, node in classes if any(re.search(r"(Error|Exception)$", ast.unparse(b)) for b in node.bases)
    }
    rows = ERROR.findall(read(ROOT / "docs" / "reference" / "errors.md"))
    yield from (f"errors.md lacks {name}" for name in sorted(raised - {name for name, _ in rows}))
    yield from (f"errors.md: {module} has no {name}" for name, module in rows if not is_known(f"{module}.{name}"))
    pages = [*SOURCES, *PAGES, *(ROOT / "recipes").rglob("*.yaml")]
    papers = {code for path in pages for code in SOURCE.findall(read(path))}
    glossary = read(ROOT / "docs" / "reference" / "glossary.md")
    yield from (f"glossary.md lacks {code}" for code in sorted(papers) if f"| **{code}** |" not in glossary)


def check_unique_names() -> Iterator[str]:
    """A public class or function has a name of its own in its package."""
    places: dict[tuple[Path, str], list[str]] = defaultdict(list)
    for path in SOURCES:
        for node in parse(path).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                places[path.parent, node.name].append(module_of(path))
    yield from (f"`{name}` is in {' and '.join(found)}" for (_, name), found in places.items() if len(found) > 1)


def check_yaml() -> Iterator[str]:
    """Workflows, templates and other YAML of the repository can be read."""
    for path in sorted(path for pattern in ("*.y*ml", ".github/**/*.y*ml") for path in ROOT.glob(pattern)):
        try:
            yaml.compose(read(path))  # tags of other programs need not be known
        except yaml.YAMLError as err:
            yield f"{path.relative_to(ROOT)}: {err}"


CHECKS = (
    check_names,
    check_links,
    check_commands,
    check_defaults,
    check_lists,
    check_unique_names,
    check_yaml,
)

if __name__ == "__main__":
    sys.exit("\n".join(message for check in CHECKS for message in check()) or 0)
