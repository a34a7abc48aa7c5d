"""Conditions on problems and solutions, written as in Python: `difficulty >= 5 and topic != "algebra"`."""

import ast
import math
import operator
import re
from collections.abc import Callable
from fractions import Fraction
from numbers import Number
from typing import Any, Protocol

from pvg_hf.core.extensions import show_value

_ORDERS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_EQUALITIES = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)


class NamedValues(Protocol):
    """The values that a condition reads: a mapping, or an object that computes each when it is asked for."""

    def get(self, name: str, /) -> Any: ...


class Condition:
    """
    A condition on named values, such as the columns of a problem.

    Numbers are compared exactly as they are written: a third is not below 0.3333, and an error of 1/10 is not below
    0.1. A missing value meets only `!=`.

    Args:
        text (`str`):
            A name whose value is true or false; a comparison (`difficulty >= 5`, `0.1 <= rel_error < 1`,
            `topic in ["algebra", "logic"]`, `"Certainly" in completion_full`); `matches(NAME, "REGULAR EXPRESSION")`;
            or several of these with `and`, `or`, `not` and parentheses.

    Raises:
        ValueError: if the text has another form, and when it is asked: if it compares a text with a number, or orders
        texts.

    Example:

    ```python
    Condition("difficulty >= 5")({"difficulty": 6})  # True
    ```
    """

    def __init__(self, text: str):
        self.text = text.strip()
        try:
            self._tree = ast.parse(self.text, mode="eval").body
            _check_form(self._tree)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as err:
            reason = err.msg if isinstance(err, SyntaxError) else err
            raise ValueError(
                f"Cannot read the condition `{text}` ({reason}): it must be a column or a comparison such as"
                " `difficulty >= 5`."
            ) from err

    @property
    def is_name(self) -> bool:
        """Whether the condition is just a name."""
        return isinstance(self._tree, ast.Name)

    @property
    def names(self) -> list[str]:
        """The names of the values that it reads."""
        names = [node.id for node in ast.walk(self._tree) if isinstance(node, ast.Name)]
        return [name for name in dict.fromkeys(names) if name != "matches"]

    @property
    def parts(self) -> "list[Condition]":
        """The conditions that `and`, `or` and `not` join."""
        return [Condition(ast.unparse(node)) for node in _leaves(self._tree)]

    def __call__(self, values: NamedValues) -> bool:
        return _holds(self._tree, values)


def _leaves(node: ast.expr) -> list[ast.expr]:
    match node:
        case ast.BoolOp(values=inner):
            return [leaf for one in inner for leaf in _leaves(one)]
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return _leaves(inner)
    return [node]


def _check_form(tree: ast.expr) -> None:
    for node in _leaves(tree):
        match node:
            case ast.Name():
                pass
            case ast.Call(
                func=ast.Name(id="matches"), args=[ast.Name(), ast.Constant(value=str() as text)], keywords=[]
            ):
                try:
                    re.compile(text)
                except re.error as err:
                    raise ValueError(f"{text!r} is no regular expression: {err}") from err
            case ast.Compare(left=left, ops=ops, comparators=others):
                _check_comparison([left, *others], ops)
            case _:
                raise ValueError(f"`{ast.unparse(node)}` is no comparison")


def _check_comparison(operands: list[ast.expr], ops: list[ast.cmpop]) -> None:
    if not any(isinstance(operand, ast.Name) for operand in operands):
        raise ValueError("it reads no column")
    stated = [ast.literal_eval(operand) for operand in operands if not isinstance(operand, ast.Name)]
    for op in ops:
        if not isinstance(op, (*_ORDERS, *_EQUALITIES)):
            raise ValueError("it has an unknown operator")
        if type(op) in _ORDERS and not all(isinstance(value, Number) for value in stated):
            raise ValueError(f"it orders {stated}; only numbers have an order")
    is_range = len(stated) == 2 and all(isinstance(op, ast.Lt | ast.LtE) for op in ops)
    if is_range and stated[0] > stated[1]:
        raise ValueError(f"nothing is between {stated[0]} and {stated[1]}")


def _holds(node: ast.expr, values: NamedValues) -> bool:
    match node:
        case ast.BoolOp(op=op, values=inner):
            return (all if isinstance(op, ast.And) else any)(_holds(one, values) for one in inner)
        case ast.UnaryOp(operand=inner):
            return not _holds(inner, values)
        case ast.Call(args=[ast.Name(id=name), ast.Constant(value=str(pattern))]):
            return values.get(name) is not None and re.search(pattern, str(values.get(name))) is not None
        case ast.Compare(left=left, ops=ops, comparators=others):
            operands = [
                values.get(one.id) if isinstance(one, ast.Name) else ast.literal_eval(one) for one in (left, *others)
            ]
            text = ast.unparse(node)
            return all(_compare(*pair, text) for pair in zip(ops, operands, operands[1:]))
    assert isinstance(node, ast.Name)
    return bool(values.get(node.id))


def _compare(op: ast.cmpop, first: Any, second: Any, text: str) -> bool:
    if first is None or second is None:
        return isinstance(op, ast.NotEq)
    if type(op) in _ORDERS:
        for value in (first, second):
            if not isinstance(value, Number):
                raise ValueError(
                    f"`{text}` compares numbers, but one is {show_value(value)}; for a text, use `==` or `in`."
                )
        return _ORDERS[type(op)](_exact(first), _exact(second))
    is_positive = isinstance(op, ast.Eq | ast.In)
    if isinstance(op, ast.In | ast.NotIn) and isinstance(second, Number):
        raise ValueError(f"`{text}` looks within {show_value(second)}, a number; compare it by `==`, or write a list.")
    if isinstance(op, ast.In | ast.NotIn) and isinstance(second, str):
        return (str(first) in second) == is_positive
    others = second if isinstance(op, ast.In | ast.NotIn) else [second]
    for other in others:
        if isinstance(first, str) != isinstance(other, str):  # never equal: all or none would silently fit
            raise ValueError(f"`{text}` compares {show_value(first)} with {show_value(other)}: a text with a number.")
    return (_exact(first) in map(_exact, others)) == is_positive


def _exact(value: Any) -> Any:
    """Return a finite number as it is written, so that an error of exactly .1 is not below .1."""
    return Fraction(str(value)) if type(value) in (int, float) and math.isfinite(value) else value
