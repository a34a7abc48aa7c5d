"""
Whether two outputs of a program agree. Only the parent process compares, and only texts: no object of a program is
asked.
"""

import json
import math
from collections import Counter
from typing import Any

from pvg_hf.experimental.programs.sandbox.cases import NOTHING, CallCase, Case, Comparison, StdinCase
from pvg_hf.experimental.programs.sandbox.inside.values import encode_value

_SEQUENCES = ("__tuple__",)
_UNORDERED = ("__set__", "__frozenset__", "__mapping__")


def agrees_with_expected(case: Case, output: str) -> bool:
    """
    Return whether an output is what a case expects; True if it expects nothing.

    Args:
        output: `CaseResult.output`, which may be any text: a text that is not JSON agrees with no value.
    """
    if isinstance(case, StdinCase):
        return case.expected is None or outputs_agree(case, output, case.expected)
    return case.expected is NOTHING or outputs_agree(case, output, json.dumps(encode_value(case.expected)))


def outputs_agree(case: Case, first: str, second: str) -> bool:
    """
    Return whether two outputs of programs on the same case agree by the rules of the case.

    Args:
        case (`CallCase` or `StdinCase`): The case, whose `expected` plays no part.
        first (`str`), second (`str`): `CaseResult.output` of each.
    """
    rules = case.comparison
    if isinstance(case, CallCase):
        try:
            return _values_agree(json.loads(first), json.loads(second), rules)
        except (ValueError, RecursionError):
            return False
    return _match(_lines(first), _lines(second), rules, lambda one, other: _lines_agree(one, other, rules))


def _lines(text: str) -> list[str]:
    """Lines without the spaces at their ends, and without empty lines at the end of the text."""
    return [line.rstrip() for line in text.rstrip().split("\n")]


def _match(first: list, second: list, rules: Comparison, agree: Any) -> bool:
    """Whether two lists agree, element by element or in any order."""
    if len(first) != len(second):
        return False
    if rules.is_ordered:
        return all(agree(one, other) for one, other in zip(first, second))
    return _match_in_any_order(first, second, agree)


def _match_in_any_order(first: list, second: list, agree: Any) -> bool:
    # What is equal as a text goes first, so that long lists are not compared element by element.
    texts = Counter(json.dumps(other, sort_keys=True) for other in second)
    unmatched = []
    for one in first:
        text = json.dumps(one, sort_keys=True)
        if texts[text]:
            texts[text] -= 1
        else:
            unmatched.append(one)
    left = []
    for other in second:
        text = json.dumps(other, sort_keys=True)
        if texts[text]:
            texts[text] -= 1
            left.append(other)
    for one in unmatched:
        place = next((index for index, other in enumerate(left) if agree(one, other)), None)
        if place is None:
            return False
        left.pop(place)
    return not left


def _lines_agree(first: str, second: str, rules: Comparison) -> bool:
    if first == second:
        return True
    words, others = first.split(), second.split()
    if not rules.float_tolerance or len(words) != len(others):
        return False
    return all(one == other or _words_agree(one, other, rules) for one, other in zip(words, others))


def _words_agree(first: str, second: str, rules: Comparison) -> bool:
    if not any(mark in word for word in (first, second) for mark in ".eE"):
        return False  # two integers are compared as texts
    try:
        return _numbers_agree(float(first), float(second), rules)
    except ValueError:
        return False


def _values_agree(first: Any, second: Any, rules: Comparison) -> bool:
    """Compare two encoded values; the outermost list in any order if the rules say so."""
    first, second = _plain(first, rules), _plain(second, rules)
    if not (rules.is_ordered or rules.counts_repeats):
        first, second = _elements(first), _elements(second)
        if isinstance(first, list) and isinstance(second, list):
            return _contains(first, second, rules) and _contains(second, first, rules)
    if isinstance(first, list) and isinstance(second, list) and not rules.is_ordered:
        return len(first) == len(second) and _match_in_any_order(
            first, second, lambda one, other: _same(one, other, rules)
        )
    return _same(first, second, rules)


def _elements(value: Any) -> Any:
    """Return the elements of an encoded list, tuple or set; any other value as it is."""
    if isinstance(value, dict) and len(value) == 1:
        mark, content = next(iter(value.items()))
        if mark in (*_SEQUENCES, "__set__", "__frozenset__") and isinstance(content, list):
            return content
    return value


def _contains(elements: list, others: list, rules: Comparison) -> bool:
    """Whether each of `others` agrees with one of `elements`."""
    texts = {json.dumps(one, sort_keys=True) for one in elements}
    return all(
        json.dumps(other, sort_keys=True) in texts or any(_same(one, other, rules) for one in elements)
        for other in others
    )


def _plain(value: Any, rules: Comparison) -> Any:
    """Replace a tuple by a list, if the rules say so, and a frozen set by a set, unless types are strict."""
    if rules.is_type_strict or not isinstance(value, dict) or len(value) != 1:
        return value
    mark, content = next(iter(value.items()))
    if mark in _SEQUENCES and rules.are_tuples_lists:
        return content
    return {"__set__": content} if mark == "__frozenset__" else value


def _same(first: Any, second: Any, rules: Comparison) -> bool:
    first, second = _plain(first, rules), _plain(second, rules)
    if isinstance(first, bool | int | float) and isinstance(second, bool | int | float):
        return (not rules.is_type_strict or type(first) is type(second)) and _numbers_agree(first, second, rules)
    if type(first) is not type(second):
        return False
    if isinstance(first, list):
        return len(first) == len(second) and all(_same(one, other, rules) for one, other in zip(first, second))
    if isinstance(first, dict):
        return _same_objects(first, second, rules)
    return first == second


def _same_objects(first: dict, second: dict, rules: Comparison) -> bool:
    if first.keys() != second.keys():
        return False
    for key, one in first.items():
        other = second[key]
        if len(first) == 1 and key in _UNORDERED and isinstance(one, list) and isinstance(other, list):
            agrees = len(one) == len(other) and _match_in_any_order(one, other, lambda a, b: _same(a, b, rules))
        else:
            agrees = _same(one, other, rules)
        if not agrees:
            return False
    return True


def _numbers_agree(first: float, second: float, rules: Comparison) -> bool:
    if first == second or (first != first and second != second):  # NaN is the number that is not itself
        return True
    if not rules.float_tolerance or not (isinstance(first, float) or isinstance(second, float)):
        return False
    try:
        return math.isclose(first, second, rel_tol=rules.float_tolerance, abs_tol=rules.float_tolerance)
    except OverflowError:  # an integer beyond the range of floats
        return False
