"""Reads Python values from the text of a dataset's tests, without running it."""

import ast
from typing import Any

_NUMBERS = {"inf": float("inf"), "nan": float("nan")}
_CONSTRUCTORS = {"set": set, "frozenset": frozenset, "tuple": tuple, "list": list, "dict": dict}


def read_literal(node: ast.AST) -> Any:
    """
    Return the value of an expression that is a literal.

    In addition to what `ast.literal_eval` reads, it may contain `inf`, `nan`, `float("...")`, and `set()`, `frozenset()`,
    `tuple()`, `list()` and `dict()` of at most one literal.

    Args:
        node (`ast.AST`):
            The expression.

    Raises:
        ValueError: if it is anything else.
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
