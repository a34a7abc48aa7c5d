"""Puts one mistake into a reference solution of GSM8K, and carries it on through the later steps."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pvg_hf.tasks.arithmetic.flaw import nearby_number

_NUMBER = r"(?:\d+(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+"
_OPERATION = rf"\s*[-+*/x]\s*\$?(?:{_NUMBER})"
_TOKEN = re.compile(
    rf"(?P<left>(?:{_NUMBER})(?:{_OPERATION})+)(?P<sign>\s*=\s*\$?)(?P<right>{_NUMBER})|(?P<alone>{_NUMBER})"
)
_PART = re.compile(rf"(?P<number>{_NUMBER})|(?P<operator>[-+*/x])")
_OPPOSITE = {"+": "-", "-": "+", "*": "/", "x": "/", "/": "*"}
_ANSWER = "#### "

# A small or round number later in the text may be a constant, such as 12 months, and not this result.
_FREQUENT = {*range(11), 12, 24, 30, 50, 52, 60, 100, 1000}
_LARGEST = 10**7


@dataclass(frozen=True)
class _Equation:
    line: int
    left: str
    right: str

    @property
    def result(self) -> Fraction:
        return _read(self.right)

    @property
    def holds(self) -> bool:
        try:
            return _value(self.left) == self.result
        except ArithmeticError:
            return False


def draw_near_misses(problem: str, reference: str, rng: np.random.Generator) -> dict[str, str]:
    """
    Draw a wrong solution of each kind from a reference; a kind for which it has no place is left out.

    `wrong_result` (a step's result is wrong, and later steps use it), `wrong_last_result`, `wrong_operation` (plus for
    minus, times for divided by, or the reverse, and later steps use the result), `dropped_step` (later steps use the
    step's first number in place of its result) and `other_answer` (all steps are right, and the final answer is the
    result of another step). In all but `other_answer`, every equation but the wrong one holds.
    """
    *lines, last = reference.splitlines()
    equations = [one for one in _equations(lines) if one.holds]
    if not equations or not last.startswith(_ANSWER) or _read_or_none(last[len(_ANSWER) :]) is None:
        return {}
    draft = _Draft(problem, lines, last, rng)
    final = _read(last[len(_ANSWER) :])
    before, at_end = equations[:-1], [one for one in equations[-1:] if one.result == final]
    others = [one for one in before if one.result != final]
    tried: dict[str, tuple[list[_Equation], Callable[[_Equation], str]]] = {
        "wrong_result": (before, draft.with_wrong_result),
        "wrong_last_result": (at_end, draft.with_wrong_result),
        "wrong_operation": (equations, draft.with_wrong_operation),
        "dropped_step": (before, draft.with_dropped_step),
        "other_answer": (others, lambda one: "\n".join([*lines, _ANSWER + one.right])),
    }
    drawn = {kind: _first_possible(places, write, rng) for kind, (places, write) in tried.items()}
    return {kind: text for kind, text in drawn.items() if text is not None}


def _first_possible(
    places: list[_Equation], write: Callable[[_Equation], str], rng: np.random.Generator
) -> str | None:
    for place in rng.permutation(len(places)):
        try:
            return write(places[place])
        except ArithmeticError:
            continue
    return None


@dataclass(frozen=True)
class _Draft:
    """A reference in which a mistake is made."""

    problem: str
    lines: list[str]
    last: str
    rng: np.random.Generator

    def with_wrong_result(self, place: _Equation) -> str:
        if place.result.denominator != 1:
            raise ArithmeticError("Only a whole number has a nearby one.")
        wrong = _write(Fraction(nearby_number(self.rng, int(place.result))), place.right)
        return self._carry(place, place.left, wrong)

    def with_wrong_operation(self, place: _Equation) -> str:
        operators = [part for part in _PART.finditer(place.left) if part["operator"]]
        if len(operators) != 1:
            raise ArithmeticError("There are several operations.")
        start, end = operators[0].span()
        left = place.left[:start] + _OPPOSITE[place.left[start]] + place.left[end:]
        return self._carry(place, left, _write(_value(left), place.right))

    def with_dropped_step(self, place: _Equation) -> str:
        if sum(one.line == place.line for one in _equations(self.lines)) != 1:
            raise ArithmeticError("The line has another step, too.")
        (first, *_) = _PART.finditer(place.left)
        return self._carry(place, None, first["number"])

    def _carry(self, place: _Equation, left: str | None, right: str) -> str:
        """Write the place as `left = right`, or leave its line out, and all later lines with the changed numbers."""
        earlier = self.lines[: place.line]
        changed = _Changed({_read(token) for text in [self.problem, *earlier] for token in re.findall(_NUMBER, text)})
        behind = self.lines[place.line + 1 :]
        changed.add(place.result, _read(right), is_last=not list(_equations(behind)))
        written = []
        if left is not None:
            before, found, after = self.lines[place.line].partition(place.left)
            sign = _TOKEN.match(found + after)
            if sign is None or re.search(r"\d", before) or "=" in after[sign.end() - len(found) :]:
                raise ArithmeticError("The line has other calculations.")
            written = [before + left + sign["sign"] + right + changed.rewrite(after[sign.end() - len(found) :])]
        for number, line in enumerate(behind):
            written.append(changed.rewrite(line, is_last=not list(_equations(behind[number + 1 :]))))
        return "\n".join([*earlier, *written, changed.rewrite(self.last)])


class _Changed:
    """Numbers that are others since the mistake."""

    def __init__(self, known: set[Fraction]):
        self._known = known  # numbers that stand for something else
        self._new: dict[Fraction, Fraction] = {}

    def add(self, old: Fraction, new: Fraction, *, is_last: bool) -> None:
        if not is_last and (old in self._known or old in _FREQUENT):
            raise ArithmeticError("This number may stand for something else.")
        self._new[old] = new

    def rewrite(self, line: str, *, is_last: bool = True) -> str:
        """Write a line with the changed numbers, and its equations with their new results."""
        written, end = "", 0
        num_equations, is_changed = 0, False
        for token in _TOKEN.finditer(line):
            written += line[end : token.start()]
            end = token.end()
            if token["alone"]:
                new = self._number(token["alone"])
                is_changed |= new != token["alone"]
                written += new
                continue
            num_equations += 1
            left = _PART.sub(lambda part: self._number(part["number"]) if part["number"] else part[0], token["left"])
            right = token["right"]
            if left != token["left"]:
                is_changed = True
                if _value(token["left"]) != _read(right):
                    raise ArithmeticError("The reference has a wrong equation.")
                right = _write(_value(left), right)
                if _read(right) != _read(token["right"]):
                    self.add(_read(token["right"]), _read(right), is_last=is_last)
            else:
                self._known.add(_read(right))
            written += left + token["sign"] + right
        if is_changed and line.count("=") != num_equations:  # an equation of another form would not hold any more
            raise ArithmeticError("An equation cannot be computed again.")
        return written + line[end:]

    def _number(self, text: str) -> str:
        old = _read(text)
        return _write(self._new[old], text) if old in self._new else text


def _equations(lines: list[str]) -> Iterator[_Equation]:
    for index, line in enumerate(lines):
        for token in _TOKEN.finditer(line):
            if token["left"]:
                yield _Equation(index, token["left"], token["right"])


def _value(left: str) -> Fraction:
    """Value of numbers with operators between them; times and divided by first, each from the left."""
    parts = [part["number"] or part["operator"] for part in _PART.finditer(left)]
    sums = [_read(parts[0])]
    operators: list[str] = []
    for operator, text in zip(parts[1::2], parts[2::2], strict=True):
        number = _read(text)
        if operator in "+-":
            sums.append(number)
            operators.append(operator)
        elif operator == "/":
            sums[-1] /= number
        else:
            sums[-1] *= number
    total = sums[0]
    for operator, number in zip(operators, sums[1:], strict=True):
        total += number if operator == "+" else -number
    return total


def _read(text: str) -> Fraction:
    return Fraction(text.replace(",", ""))


def _read_or_none(text: str) -> Fraction | None:
    return _read(text) if re.fullmatch(_NUMBER, text.strip()) else None


def _write(number: Fraction, like: str) -> str:
    """Write a number in the form of another: whole or with cents, with or without commas."""
    is_whole = _read(like).denominator == 1
    if number <= 0 or number > _LARGEST or 100 % number.denominator or (is_whole and number.denominator != 1):
        raise ArithmeticError("No solution has such a number.")
    decimals = len(like.partition(".")[2])
    if number.denominator != 1:
        decimals = max(decimals, 1 if 10 % number.denominator == 0 else 2)
    commas = "," if "," in like or number >= 10_000 else ""
    return f"{float(number):{commas}.{decimals}f}"
