"""
Figures of the package's own code, of the working tree or of a commit:

    python benchmarks/code_figures.py [COMMIT ...]

Prints a table with a column for each: `CONTRIBUTING.md` has it before and after the redesign.
"""

import ast
import io
import re
import subprocess
import sys
import tarfile
import tokenize
from collections import Counter
from pathlib import Path
from statistics import median

REPOSITORY = Path(__file__).parents[1]
PACKAGE = "pvg_hf"
Sources = dict[str, str]  # module name -> text
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def read_sources(commit: str | None = None) -> Sources:
    """The package's modules; without a commit those of the working tree."""
    if commit is None:
        files = {
            path.relative_to(REPOSITORY).as_posix(): path.read_bytes()
            for path in REPOSITORY.glob(f"{PACKAGE}/**/*.py")
        }
    else:
        packed = subprocess.run(["git", "archive", commit, PACKAGE], cwd=REPOSITORY, capture_output=True, check=True)
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            members = [member for member in archive if member.name.endswith(".py")]
            files = {member.name: archive.extractfile(member).read() for member in members}
    return {_module_name(path): text.decode() for path, text in sorted(files.items())}


def _module_name(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def measure(sources: Sources) -> dict[str, str]:
    """The figures of some modules, as texts, by name."""
    trees = {module: ast.parse(text) for module, text in sources.items()}
    functions = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)]
    num_lines = sum(text.count("\n") for text in sources.values())
    num_code_lines = sum(map(_count_code_lines, sources.values()))
    importers = count_importers(trees)
    return {
        f"files in `{PACKAGE}/`": f"{len(sources):,}",
        "lines": f"{num_lines:,}",
        "lines of code (no docstrings, comments, imports or blank lines)": f"{num_code_lines:,}",
        "lines of code per file": f"{num_code_lines / len(sources):.0f}",
        "modules with one importer": f"{sum(number == 1 for number in importers.values()):,}",
        "signatures with `PhaseContext`": f"{sum(map(_takes_context, functions)):,}",
        "comments per 100 lines of code": f"{100 * sum(map(_count_comments, sources.values())) / num_code_lines:.1f}",
        "lines of a function, median": f"{median(node.end_lineno - node.lineno + 1 for node in functions):.0f}",
    }


def count_importers(trees: dict[str, ast.Module]) -> Counter[str]:
    """
    Count the other modules that import each module, or a name of it, anywhere in their code or by a name in a string.
    """
    numbers: Counter[str] = Counter()
    for importer, tree in trees.items():
        numbers.update({module for module in _imported(tree, trees.keys()) if module != importer})
    return numbers


def _imported(tree: ast.Module, modules: set[str]) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inside = {f"{node.module}.{alias.name}" for alias in node.names}  # `from package import module`
            found |= inside & modules or {node.module}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = re.fullmatch(rf"({PACKAGE}(?:\.\w+)+)(?::\w+)?", node.value)  # `package.module:Name`
            found |= {named[1]} if named else set()
    return found & modules


def _takes_context(function: ast.FunctionDef) -> bool:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return any(argument.annotation and "PhaseContext" in ast.unparse(argument.annotation) for argument in every)


def _count_comments(text: str) -> int:
    """Comments that a reader reads: not those for tools."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(
        token.type == tokenize.COMMENT and not re.match(r"# (noqa|fmt|type):", token.string) for token in tokens
    )


def _count_code_lines(text: str) -> int:
    """Lines that hold code, without docstrings and imports."""
    tree = ast.parse(text)
    nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)) or _is_text(node)]
    left_out = {line for node in nodes for line in range(node.lineno, node.end_lineno + 1)}
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {line for t in tokens if t.type not in skipped for line in range(t.start[0], t.end[0] + 1)}
    return len(lines - left_out)


def _is_text(node: ast.AST) -> bool:
    """Whether a statement is a text by itself, as a docstring is."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def show_table(commits: list[str]) -> str:
    """The figures as a Markdown table."""
    names = commits or [None]
    columns = [measure(read_sources(commit)) for commit in names]
    header = ["", *(name or "working tree" for name in names)]
    rows = [[figure, *(column[figure] for column in columns)] for figure in columns[0]]
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows])


if __name__ == "__main__":
    print(show_table(sys.argv[1:]))
