"""Parses Python texts in any thread, reads literals, and finds the program in a solution's text."""

import ast
import re
import threading
import warnings
from collections.abc import Iterator
from typing import Any

_FENCE = re.compile(r"^[ \t]*(```+|~~~+)[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_PYTHON = {"", "py", "python", "python3"}
_CODE_LINE = re.compile(r"^(?:def|class|import|from|async def)\b|^@|^\w+\s*=", re.MULTILINE)
MAX_DROPPED = 40  # lines of prose after a program without a fence
MAX_CHARACTERS = 200_000  # a longer text is no program; parsing it would take seconds
_NUMBERS = {"inf": float("inf"), "nan": float("nan")}
_CONSTRUCTORS = {"set": set, "frozenset": frozenset, "tuple": tuple, "list": list, "dict": dict}
_LOCK = threading.Lock()


def extract_program(solution: str, function: str | None = None) -> str | None:
    """
    Return the program in a solution's text.

    The candidates are the fenced blocks (` ``` ` or `~~~`, without a language or with Python), the last one first,
    then the whole text, then the text from its first line of code, without lines of prose after it. A fence that is
    not closed ends with the text.

    Args:
        function (`str`, *optional*):
            Function, or `Class.method`, that the program must define. A block that does not is not a candidate.

    Returns:
        `str`, *optional*: the first candidate that is valid Python, not empty, and defines the function; `None` if
        there is none.
    """
    if len(solution) > MAX_CHARACTERS:
        return None
    candidates = (text.strip("\n").rstrip() for text in _candidates(solution))
    return next((text for text in candidates if is_program(text, function)), None)


def is_program(text: str, function: str | None = None) -> bool:
    """Whether a text is valid Python with at least one statement, and defines `function` at its top level."""
    tree = parse_program(text)
    if tree is None or not tree.body:
        return False
    return function is None or _defines(tree, function)


def parse_program(text: str) -> ast.Module | None:
    """Parse a program; `None` if it is not valid Python."""
    try:
        return parse_python(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return None


def _defines(tree: ast.Module, function: str) -> bool:
    owner, _, method = function.rpartition(".")
    body = tree.body
    if owner:
        classes = [node for node in body if isinstance(node, ast.ClassDef) and node.name == owner]
        body = [node for found in classes for node in found.body]
    return any(method in _names(node) for node in body)


def _names(node: ast.stmt) -> set[str]:
    """Names that a statement binds at its own level."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Assign):
        return {target.id for target in node.targets if isinstance(target, ast.Name)}
    if isinstance(node, ast.If | ast.Try):
        return {name for child in node.body for name in _names(child)}
    return set()


def _candidates(solution: str) -> Iterator[str]:
    blocks = [match[3] for match in _FENCE.finditer(solution) if match[2].lower() in _PYTHON]
    yield from reversed(blocks)
    yield solution
    first = _CODE_LINE.search(solution)
    if first is None:
        return
    lines = solution[first.start() :].split("\n")
    for _ in range(MAX_DROPPED):
        yield "\n".join(lines)
        # An indented line is code: without it, a program with a mistake would become another program.
        if not lines or lines.pop()[:1].isspace():
            return


def parse_python(text: str) -> ast.Module:
    """
    Parse a text, which several threads may do at the same time.

    Up to Python 3.12.1, `ast.parse` counts the depth of its recursion in one place for all threads, and raises
    `SystemError` if another thread parses before it has ended (python/cpython#106905). Changes of the warnings'
    filters hold for all threads, too.

    Raises `SyntaxError` if the text is not valid Python.
    Raises `ValueError` if it contains a null character.
    Raises `RecursionError` if its expressions are nested too deeply.
    Raises MemoryError: the same, on some versions of Python.
    """
    with _LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # e.g. about an invalid escape sequence
        # `compile` as well as `ast.parse`, since it also refuses `return` outside of a function.
        compile(text, "<program>", "exec", dont_inherit=True)
        return ast.parse(text)


def read_literal(node: ast.AST) -> Any:
    """
    Return the value of an expression that is a literal.

    In addition to what `ast.literal_eval` reads, it may contain `inf`, `nan`, `float("...")`, and `set()`,
    `frozenset()`, `tuple()`, `list()` and `dict()` of at most one literal.

    Raises `ValueError` if it is anything else.
    """
    match node:
        case ast.List(elts=items):
            return [read_literal(item) for item in items]
        case ast.Tuple(elts=items):
            return tuple(read_literal(item) for item in items)
        case ast.Dict(keys=keys, values=values) if None not in keys:
            return _call_constructor(
                "dict", [(read_literal(key), read_literal(value)) for key, value in zip(keys, values)]
            )
        case ast.Name(id=name) if name in _NUMBERS:
            return _NUMBERS[name]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Name(id="inf")):
            return -_NUMBERS["inf"]
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str() as text)], keywords=[]):
            return float(text)
        case ast.Call(func=ast.Name(id=name), args=[], keywords=[]) if name in _CONSTRUCTORS:
            return _CONSTRUCTORS[name]()
        case ast.Call(func=ast.Name(id=name), args=[only], keywords=[]) if name in _CONSTRUCTORS:
            return _call_constructor(name, read_literal(only))
    try:
        return ast.literal_eval(node)
    except (TypeError, MemoryError, RecursionError) as err:  # such as a set of lists
        raise ValueError(f"not a literal: {err}") from err


def _call_constructor(name: str, value: Any) -> Any:
    try:
        return _CONSTRUCTORS[name](value)
    except TypeError as err:
        raise ValueError(f"not a literal: {err}") from err
