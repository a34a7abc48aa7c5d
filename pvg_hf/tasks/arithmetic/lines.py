"""Lines of a solution: what a line can state, how it is written, and how it is parsed."""

import re
from dataclasses import dataclass

from pvg_hf.tasks.arithmetic.grammar import MAX_DIGITS, OPERATIONS, Clue, read_comparison

LINKS = (":", ", so")
NOT_NEEDED = "is not needed"


@dataclass(frozen=True)
class Calculation:
    """A calculation such as `7 + 3`, `(7 + 3) * 2` or `4 + 4 + 4`, evaluated from the left."""

    numbers: tuple[int, ...]
    operators: tuple[str, ...]

    @property
    def value(self) -> int:
        value = self.numbers[0]
        for operator, number in zip(self.operators, self.numbers[1:], strict=True):
            value = OPERATIONS[operator](value, number)
        return value

    @property
    def is_sum_of_equals(self) -> bool:
        """Whether it is a multiplication written as a sum, such as `4 + 4 + 4`."""
        return set(self.operators) == {"+"} and len(set(self.numbers)) == 1

    def __str__(self) -> str:
        first, *rest = self.numbers
        text = str(first)
        for index, (operator, number) in enumerate(zip(self.operators, rest, strict=True)):
            text = f"({text})" if index and not self.is_sum_of_equals else text
            text += f" {operator} {number}"
        return text


@dataclass(frozen=True)
class SolutionLine:
    """
    What one line of a solution states. `Ben has 3 more than Ana: 7 + 3 = 10` states everything; `7 + 3 = 10` leaves
    the person and the comparison to the reader, `Ben has 10` the comparison and the calculation.

    Args:
        result: The number; `None` for a remark.
        link: What joins the comparison and the calculation, one of `LINKS`.
    """

    owner: str | None
    comparison: Clue | None = None
    calculation: Calculation | None = None
    result: int | None = None
    link: str = LINKS[0]

    @property
    def is_remark(self) -> bool:
        """Whether it says that a person is not needed."""
        return self.result is None

    def __str__(self) -> str:
        if self.is_remark:
            return f"{self.owner} {NOT_NEEDED}"
        stated = f"{self.calculation} = {self.result}" if self.calculation else f"{self.result}"
        if self.comparison is not None:
            return f"{self.owner} has {self.comparison.phrase}{self.link} {stated}"
        return stated if self.owner is None else f"{self.owner} has {stated}"


_NUMBER = r"-?\d+"
_CALCULATION = rf"(?:\({_NUMBER} [-+*/] {_NUMBER}\)|{_NUMBER}) [-+*/] {_NUMBER}(?: \+ {_NUMBER})?"
_STATED = rf"(?:(?P<calculation>{_CALCULATION}) = )?(?P<result>{_NUMBER})"
_CITING = re.compile(rf"(?P<owner>\w+) has (?P<phrase>[\w ]+)(?P<link>{'|'.join(LINKS)}) {_STATED}")
_NAMING = re.compile(rf"(?P<owner>\w+) has {_STATED}")
_BARE = re.compile(_STATED)
_REMARK = re.compile(rf"(?P<owner>\w+) {NOT_NEEDED}")
_CONCLUSION = re.compile(rf"#### ({_NUMBER})")


def read_conclusion(line: str) -> int | None:
    """Parse the final answer from a line such as `#### 10`; `None` for any other line."""
    match = _CONCLUSION.fullmatch(line)
    return int(match[1]) if match and len(match[1]) <= MAX_DIGITS else None


def write_conclusion(answer: int) -> str:
    return f"#### {answer}"


def read_line(text: str) -> SolutionLine | None:
    """Parse a line; `None` if it is not written in any of the forms."""
    if max((len(number) for number in re.findall(r"\d+", text)), default=0) > MAX_DIGITS:
        return None
    if match := _REMARK.fullmatch(text):
        return SolutionLine(match["owner"])
    if match := _CITING.fullmatch(text):
        comparison = read_comparison(match["owner"], match["phrase"])
        if comparison is None or match["calculation"] is None:
            return None
        return SolutionLine(match["owner"], comparison, *_read_stated(match), link=match["link"])
    if match := _NAMING.fullmatch(text):
        return SolutionLine(match["owner"], None, *_read_stated(match))
    if (match := _BARE.fullmatch(text)) and match["calculation"]:
        return SolutionLine(None, None, *_read_stated(match))
    return None


def _read_stated(match: re.Match[str]) -> tuple[Calculation | None, int]:
    result = int(match["result"])
    if match["calculation"] is None:
        return None, result
    symbols = match["calculation"].replace("(", "").replace(")", "").split(" ")
    numbers, operators = tuple(map(int, symbols[::2])), tuple(symbols[1::2])
    return Calculation(numbers, operators), result
