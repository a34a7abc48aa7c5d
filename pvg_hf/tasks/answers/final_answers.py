"""Extracts, compares and grades final answers. docs/reference/grading.md spells out the rules."""

import re
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

from datasets import Value

from pvg_hf.tasks.answers.expressions import (
    exact_value,
    expressions_equal,
    is_number_expression,
    parse_expression,
    to_expression,
)
from pvg_hf.tasks.answers.numbers import MAX_NUMBER_CHARS, Number, last_number, read_number
from pvg_hf.tasks.answers.text import answer_side, final_part, plain_text

if TYPE_CHECKING:
    from pvg_hf.tasks.base import Grade

ANSWER_FORMATS = ("strict", "lenient")
ANSWER_COLUMNS = {  # in the detail of every grade, whichever format decides
    "strict_answer": Value("string"),
    "strict_correct": Value("bool"),
    "lenient_answer": Value("string"),
    "lenient_correct": Value("bool"),
}

_DECORATION = r"(?:[^\w\n]|_){0,12}"  # `### `, `> **`, an emoji
_NUMBERED = rf"(?:\d{{1,2}}[.)]{_DECORATION})?"
_PROBLEM = (
    r"(?:(?i:(?:(?:next|new) )?(?:problem|question)(?: \d{1,4})?|instruction|user)|Q\d{0,4}|Human)"
    r"[ \t*_]{0,4}(?::|\r?$)"
)
_OTHER_PROBLEM = re.compile(rf"^{_DECORATION}{_PROBLEM}", re.MULTILINE)
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{(?!\s*\})")
_GAP = r"[ \t*]{1,4}"
_LABEL = (
    rf"(?!answer[ \t]*=)(?i:(?:(?:so|thus|hence|therefore),?{_GAP})?(?:the{_GAP})?"  # not `answer = 0`
    rf"(?:(?:correct|final){_GAP})?answer)(?:[ \t*_]{{0,4}}(?:[:=]|is\b:?)|[^\w\n.,;?!]{{0,8}}$|(?:\*\*|__)(?=[ \t]))"
)
_LETTER = r"A[ \t*_]{0,4}:"
_OPTION = rf"{_LETTER}(?=(?:[^\n]*\n){{1,2}}{_DECORATION}B[ \t*_]{{0,4}}:)"  # the first of a list
_HEADING = r"[ \t*_]*\d+[.:)]\s*[^\W\d]"  # `#### 1. Count the eggs`
_SIGN = rf"(?:\#{{4,}}(?!{_HEADING})|(?i:<(?:final[ _]?)?answer>)\s*)"
_MARK = re.compile(
    rf"^{_DECORATION}(?:(?P<other_problem>{_PROBLEM})|{_NUMBERED}(?:(?!{_OPTION})(?P<letter>{_LETTER})"
    rf"|{_LABEL}(?:[ \t*_]*{_LABEL})?))|(?P<box>{_BOX.pattern})|{_SIGN}(?:[ \t*_]*(?:{_LETTER}|{_LABEL}))?",
    re.MULTILINE,
)
_LINE_AFTER_MARK = re.compile(r"(?P<skipped>(?:[^\w\n]*\n){0,3})(?P<content>(?:(?!\#{4})[^\n])*)")
_DIGIT = re.compile(r"\d")
_BARE_NUMBER = re.compile(r"[-+]?[\d.,/ ]+", re.ASCII)
_CALCULATION = re.compile(r"[\d.,+\-*/() ]+", re.ASCII)
_TIMES = re.compile(r"(?<=[\d) ])x(?=[\d( ])", re.ASCII)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3})", re.ASCII)
_MAX_READINGS = 8
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)


def extract_answer(text: str) -> str | None:
    r"""
    Extract the final answer by its mark.

    Marks are `#### x`, `<answer>x</answer>`, `\boxed{x}`, a line `Answer: x` or `The answer is x`, and with a lower
    rank a line `A: x`, which may be an item of a list. The last one of the best rank counts, before another problem
    begins. What stands before the end of a thinking block is not read.

    Args:
        text (`str`):
            A solution, of any length and content.

    Returns:
        `str`: the answer without decoration (`1234` for `**$1,234.** dollars`), or `None`.
    """
    return _marked_answer(final_part(text), normalize_answer)


def _marked_answer(text: str, read: Callable[[str], str | None]) -> str | None:
    """
    Find the final answer by its mark, where `read` normalizes a text that is an answer, and returns `None` for others.
    """
    last: dict[bool, re.Match[str]] = {}  # the last part by whether it is only a line `A: x`
    end = 0
    for mark in _MARK.finditer(text):
        if mark["other_problem"] and last:
            break
        if mark["other_problem"] or mark.start() < end:  # a box in a line that was read
            continue
        part = mark if mark["box"] else _line(text, mark)
        # A line without an answer, such as a heading, is passed over. A box and an equation count, whatever they hold.
        if part and (mark["box"] or "=" in part["content"] or _read_part(text, part, read) is not None):
            last[bool(mark["letter"]) and _BOX.search(text, part.start(), part.end()) is None] = part
            end = part.end()
    found = last.get(False) or last.get(True)
    return None if found is None else _read_part(text, found, read)


def _line(text: str, mark: re.Match[str]) -> re.Match[str] | None:
    """Match the rest of a mark's line or, below a heading `Answer`, the next line that is not only decoration."""
    line = _LINE_AFTER_MARK.match(text, mark.end())
    assert line is not None  # both of its groups can be empty
    # Below a bare `####`, and in an equation below a heading, mostly begins a derivation.
    is_derivation = line["skipped"] and (mark[0].endswith("#") or "=" in line["content"])
    return None if is_derivation else line


def _read_part(text: str, part: re.Match[str], read: Callable[[str], str | None]) -> str | None:
    """Read a box, or a line, in which a box is the answer if it has one."""
    box = _BOX.search(text, part.start(), part.end())
    content = part["content"] if box is None else _box_content(text, box.end())
    return None if content is None else read(content)


def extract_last_number(text: str) -> str | None:
    """
    Extract the answer by its mark (see [`extract_answer`]), or else the last number before another problem begins.
    """
    text = final_part(text)
    return _marked_answer(text, normalize_answer) or _last_number_text(text)


def read_answer(text: str, answer_format: str = "strict") -> str | None:
    """Extract the final answer in one of the `ANSWER_FORMATS`: [`extract_answer`] or [`extract_last_number`]."""
    return {"strict": extract_answer, "lenient": extract_last_number}[answer_format](text)


def normalize_answer(text: str) -> str | None:
    """Strip the decoration from an answer; `None` if it is neither a number nor a short expression. Idempotent."""
    for _ in range(_MAX_READINGS):  # what is removed may uncover more, as in `0X****0`
        answer = _read_once(text)
        if answer is None or answer == text:
            return answer
        text = answer
    return None


def _read_once(text: str) -> str | None:
    if len(text) > MAX_NUMBER_CHARS:
        return None
    plain = plain_text(text)
    answer = answer_side(plain)
    if answer is None or _has_false_equation(plain):
        return None
    number = read_number(answer)
    if number is not None:
        return number.text
    return answer if parse_expression(answer) is not None else None


def _has_false_equation(text: str) -> bool:
    """
    Whether `=` joins two different numbers or calculations, as in `17 = 18` and `1 + 1 = 9`.

    `≈` may round, and so may a decimal after `=`: `10/3 = 3.33` is true. Numbers with a unit are not compared, since
    `2 hours = 120 minutes` is true.
    """
    for equation in text.split("≈") if "=" in text else ():
        values = [value for side in equation.split("=") if (value := _side_value(side)) is not None]
        if any(not _are_equal_up_to_rounding(*pair) for pair in combinations(values, 2)):
            return True
    return False


def _side_value(side: str) -> tuple[Fraction, int] | None:
    """Value of a number or a calculation without units, and its decimal places; `None` for anything else."""
    side = _TIMES.sub("*", side.replace("$", "")).strip()
    if _BARE_NUMBER.fullmatch(side) and (number := read_number(side)) is not None:
        return number.value, len(number.text.partition(".")[2])
    value = exact_value(_THOUSANDS.sub("", side)) if _CALCULATION.fullmatch(side) else None
    return None if value is None else (value, 0)


def _are_equal_up_to_rounding(first: tuple[Fraction, int], second: tuple[Fraction, int]) -> bool:
    """
    Whether two values are equal, or equal up to half a unit of the last decimal place that either of them states.
    """
    (value, places), (other, other_places) = first, second
    places = max(places, other_places)
    return value == other or (places > 0 and abs(value - other) <= Fraction(1, 2 * 10**places))


def answers_equal(a: str | None, b: str | None) -> bool:
    """
    Whether two answers are equal.

    Numbers are compared exactly, whatever their size and notation (`1,234.0`, `1/2` and `0.5`). A rounded decimal
    (`0.33`) differs from `1/3`. Anything else is compared through math-verify, with bounded work.

    Args:
        a (`str`, *optional*), b (`str`, *optional*):
            Answers, extracted or as written. `None` (no answer) equals nothing, not even `None`.
    """
    if a is None or b is None:
        return False
    if a == b:  # the most frequent case, without parsing
        return True
    first, second = normalize_answer(a), normalize_answer(b)
    if first is None or second is None:
        return False
    return first == second or _values_equal(first, second)


def _values_equal(first: str, second: str) -> bool:
    numbers = read_number(first), read_number(second)
    if numbers[0] is not None and numbers[1] is not None:
        return numbers[0].value == numbers[1].value
    expressions = [
        parse_expression(text) if number is None else to_expression(number.value)
        for text, number in zip((first, second), numbers)
    ]
    # Exact for numbers; math-verify only decides about expressions.
    return None not in expressions and expressions_equal(*expressions)


def is_numeric(answer: str) -> bool:
    r"""Whether an extracted answer is one real number (`18`, `2\sqrt{3}`) rather than a letter, a list or a pair."""
    return read_number(answer) is not None or is_number_expression(answer)


def reference_answer(reference: str) -> str:
    """
    Return the final answer of a problem's `reference`, which is a solution text or a bare answer.

    Raises:
        ValueError: if it has no readable answer, so that no solution could be graded.
    """
    answer = extract_answer(reference) or normalize_answer(reference)
    if answer is None:
        raise ValueError(
            f"The reference {reference[-80:]!r} has no readable final answer; it must be a number or a short "
            r"expression, or a text that ends in `#### x`, `A: x`, `Answer: x` or `\boxed{x}`."
        )
    return answer


def check_answer_format(answer_format: str) -> None:
    """Raise `ValueError` if `answer_format` is not one of `ANSWER_FORMATS`."""
    if answer_format not in ANSWER_FORMATS:
        allowed = ", ".join(f"`{name}`" for name in ANSWER_FORMATS)
        raise ValueError(f"Unknown `answer_format` {answer_format!r}; allowed: {allowed}.")


def grade_answer(solution: str, reference: str, answer_format: str = "strict") -> "Grade":
    """
    Grade a solution by its final answer.

    Args:
        solution (`str`):
            Any text. A solution without a readable answer is incorrect, never an error. If the reference's answer is a
            number, a solution's answer must also be one: `x`, `9*2` and `18, 20` are no complete answers.
        reference (`str`):
            A correct solution's text, or a bare answer.
        answer_format (`str`, defaults to `"strict"`):
            The reading that decides: `"strict"` ([`extract_answer`]) or `"lenient"` ([`extract_last_number`]).

    Returns:
        `Grade`: its `detail` has both readings (`ANSWER_COLUMNS`), whichever the format.

    Raises:
        ValueError: for another `answer_format`, or a reference without a readable answer.
    """
    from pvg_hf.tasks.base import Grade  # late: a task reads answers by this module

    check_answer_format(answer_format)
    expected = reference_answer(reference)
    solution = final_part(solution)
    strict = _marked_answer(solution, partial(_read_as_plain, expected=expected))
    readings = {"strict": strict, "lenient": strict or _last_number_text(solution)}
    detail: dict[str, Any] = {}
    for name, answer in readings.items():
        detail |= {f"{name}_answer": answer, f"{name}_correct": answers_equal(answer, expected)}
    return Grade(readings[answer_format], detail[f"{answer_format}_correct"], detail=detail)


def _read_as_plain(text: str, expected: str) -> str | None:
    answer = normalize_answer(text)
    return answer if answer is not None and _is_as_plain(answer, expected) else None


def _is_as_plain(answer: str, expected: str) -> bool:
    r"""
    Whether an answer is as plain as the reference's: a number for a number, a real expression for one (`2\sqrt{3}`).

    Otherwise `x` would be compared with 18 as an expression, and `9*2` would leave the last step to the grader.
    """
    if read_number(expected) is not None:
        number = read_number(answer)
        return number is not None and not _is_whole_fraction(number)
    return is_numeric(answer) or not is_numeric(expected)


def _is_whole_fraction(number: Number) -> bool:
    """
    Whether a number is written as a fraction that is a whole number, such as `36/2`: a calculation. `18/1` is none.
    """
    return number.value.denominator == 1 and "/" in number.text and not number.text.endswith("/1")


def _last_number_text(text: str) -> str | None:
    first = _DIGIT.search(text)
    other_problem = first and _OTHER_PROBLEM.search(text, first.end())
    number = last_number(text[: other_problem.start()] if other_problem else text)
    return number and number.text


def _box_content(text: str, start: int) -> str | None:
    """Return the text up to the brace that closes the box; `None` if it is too long or the brace is missing."""
    depth = 1
    for brace in _BRACE.finditer(text, start, start + MAX_NUMBER_CHARS):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            return text[start : brace.start()]
    return None
