"""Inputs that provers propose: the block that holds one, and whether it has the form of a problem's tests."""

import ast
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pvg_hf.experimental.programs.code.parsing import parse_program, read_literal
from pvg_hf.experimental.programs.sandbox import CallCase, Case, Comparison, StdinCase

MAX_CHARACTERS = 2000  # of a proposed input
FLOAT_TOLERANCE = 1e-6  # at least, when outputs on a proposed input are compared
_MAX_DIGITS = 300  # of a word of stdin that is read as a number

_BLOCK = re.compile(
    r"^[ \t]*(```+|~~~+)[ \t]*input\b[^\n]*(?:\n|\Z)(.*?)(?:^[ \t]*\1[ \t\r]*$|\Z)",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]+")

Place = tuple[Any, ...]
Bounds = dict[Place, tuple[float, float]]


def split_input(text: str) -> tuple[str, str | None]:
    """
    Split a prover's text into the solution and the input that it proposes.

    The input is the content of the first fenced block (` ``` ` or `~~~`) with the language `input`. A fence that is
    not closed ends with the text.

    Returns: the text before the block, without white space at its end, and the block's content. What follows the block
        belongs to neither. A text without such a block is returned as it is, with `None`.
    """
    found = _BLOCK.search(text)
    return (text, None) if found is None else (text[: found.start()].rstrip(), found[2].replace("\r\n", "\n"))


def read_input(text: str, tests: Sequence[Case]) -> Case | None:
    """
    Read a proposed input, without running anything.

    Args:
        text: The content of the block: what the program reads from stdin or, if the tests are calls, the arguments as
            Python literals that are separated by commas, or a call of the function with them.
        tests: The problem's tests, at least one. The rules of comparison are the loosest of theirs, and tolerate
            differences of 1e-6 between floats.
    Returns: [`~pvg_hf.experimental.programs.sandbox.Case`], *optional*: a case without an expected output; `None` if
        the text has another form or more than 2,000 characters.
    """
    if len(text) > MAX_CHARACTERS:
        return None
    rules = _loosest([test.comparison for test in tests])
    if isinstance(tests[0], StdinCase):
        return StdinCase("\n".join(_lines(text)) + "\n", comparison=rules)
    function = tests[0].function
    try:
        return CallCase(function, _read_arguments(text, function.rpartition(".")[2]), comparison=rules)
    except (ValueError, RecursionError, MemoryError):
        return None


def input_bounds(tests: Iterable[Case]) -> Bounds:
    """
    Return the smallest and the largest number at each place of the tests' inputs.

    A place is a path of types from the outermost value; its numbers are values or lengths. For stdin, the words of the
    first line and those of the other lines are at different places.
    """
    bounds: Bounds = {}
    for test in tests:
        for place, number in _measure(test):
            lowest, highest = bounds.get(place, (number, number))
            bounds[place] = (min(lowest, number), max(highest, number))
    return bounds


def is_within(case: Case, bounds: Bounds) -> bool:
    """
    Whether an input has the form of tests, given their [`input_bounds`].

    It does if each of its values has a type, and each text only kinds of characters, that tests have at the same
    place, and if all numbers and lengths are in the range of theirs. NaN is in no range.
    """
    unbounded = (float("inf"), float("-inf"))
    return all(
        bounds.get(place, unbounded)[0] <= number <= bounds.get(place, unbounded)[1]
        for place, number in _measure(case)
    )


def _loosest(rules: Sequence[Comparison]) -> Comparison:
    return Comparison(
        float_tolerance=max(FLOAT_TOLERANCE, *(one.float_tolerance for one in rules)),
        is_ordered=all(one.is_ordered for one in rules),
        is_type_strict=all(one.is_type_strict for one in rules),
        are_tuples_lists=any(one.are_tuples_lists for one in rules),
        counts_repeats=all(one.counts_repeats for one in rules),
    )


def _read_arguments(text: str, function: str) -> tuple[Any, ...]:
    # Inside of a call, `(1, 2)` is one argument and `1, 2` are two.
    match parse_program(f"_(\n{text}\n)"):
        case ast.Module(body=[ast.Expr(value=ast.Call(func=ast.Name(id="_"), args=nodes, keywords=[]))]):
            pass
        case _:
            raise ValueError(f"not arguments: {text[:80]}")
    match nodes:
        case [ast.Call(func=ast.Name(id=name), args=inner, keywords=[])] if name == function:
            nodes = inner
    return tuple(read_literal(node) for node in nodes)


def _lines(stdin: str) -> list[str]:
    """Lines without spaces at their ends, and without empty lines at the end of the text."""
    return [line.rstrip(" ") for line in stdin.rstrip(" \n").split("\n")]


def _measure(case: Case) -> Iterator[tuple[Place, float]]:
    if isinstance(case, StdinCase):
        first, *others = [[_read_word(word) for word in line.split(" ")] for line in _lines(case.stdin)]
        arguments: Sequence[Any] = (first, others)
    else:
        arguments = case.arguments
    yield (), len(arguments)
    for number, argument in enumerate(arguments):
        yield from _measure_value(argument, (number,))


def _read_word(word: str) -> int | float | str:
    if len(word) > _MAX_DIGITS:
        return word
    return int(word) if _INTEGER.fullmatch(word) else float(word) if _DECIMAL.fullmatch(word) else word


def _measure_value(value: Any, place: Place) -> Iterator[tuple[Place, float]]:
    """Yield the places in a value, each with a number that must be in the tests' range."""
    place = (*place, type(value).__name__)
    match value:
        case None | bool():
            yield place, 0
        case int() | float():
            yield place, value
        case complex():
            yield from _measure_value((value.real, value.imag), place)
        case str() | bytes():
            yield place, len(value)
            for character in set(value) if isinstance(value, str) else ():
                yield (*place, unicodedata.category(character), character.isascii()), 0
        case dict():
            yield place, len(value)
            for key, item in value.items():
                yield from _measure_value(key, (*place, "key"))
                yield from _measure_value(item, (*place, "value"))
        case _:
            yield place, len(value)
            for item in value:
                yield from _measure_value(item, place)
