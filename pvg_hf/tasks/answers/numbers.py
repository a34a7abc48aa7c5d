"""Reads numbers as people write them: `$1,234.50`, `50%`, `1 1/2 cups`, `1.8 billion`, `2 * 10^3`."""

import re
from fractions import Fraction
from typing import NamedTuple

from pvg_hf.tasks.answers.text import VULGAR_FRACTIONS, last_match, plain_signs
from pvg_hf.tasks.answers.words import (
    MAX_UNIT_CHARS,
    NUMBERS_IN_WORDS,
    changes_number,
    is_unit,
    names_scale,
    strip_unit_powers,
)

MAX_NUMBER_CHARS = 4300  # the longest integer that Python reads
_MAX_EXPONENT = 999  # 10**999 is cheap to compute, 10**999999999 is not

# 1,234,567 and 12,34,567 (Indian grouping) and 1 234 567, not 1,23. No number starts at a group: scanning is linear.
_INTEGER = r"(?:(?<!\d,)\d{1,3}(?:,\d{2,3})*,\d{3}(?!\d)|(?<!\d )\d{1,3}(?: \d{3})+(?!\d)|\d+)"
_DECIMAL = rf"(?:{_INTEGER}(?:\.\d*)?|(?<![\w.])\.\d+)"
_CURRENCY = r"(?:(?:US|CA|AU)?\$|[€£¥₹₱₩]|(?:USD|EUR|GBP|CHF|Rs\.?)(?=[ \d]))"
_MAGNITUDE = (
    rf"(?:(?<!\d)(?<!\d )(?P<currency>{_CURRENCY}) ?(?P<inner_sign>[+-]?) ?)?"  # not the sign of `20$ - 5`
    rf"(?:(?P<whole>{_INTEGER}) (?:and )?(?=\d{{1,2}} ?/ ?[1-9]))?"
    rf"(?P<numerator>{_DECIMAL})(?: ?/ ?(?P<denominator>{_DECIMAL}))?"
    r"(?:[eE](?P<exponent>[+-]?\d{1,3})(?!\d)| ?(?:\*|\\times|\\cdot) ?10 ?\^ ?\{?(?P<power>[+-]?\d{1,3})(?!\d)\}?)?"
)

_ALONE = re.compile(rf"(?P<sign>[+-]?) ?{_MAGNITUDE}(?P<rest>.*)", re.ASCII | re.DOTALL)
_NUMBER_IN_TEXT = re.compile(
    # Part of something longer: `3.14.15`, `1e9999`, `1_000`, `1,0000`, `2^5`; also of `minus 5`, which may be a
    # subtraction.
    r"(?P<is_piece>(?<=\d)(?:[._'\u2019]|,(?=\d{4})|[eE][+-]?)|\^ ?[{(]?|\b[mM]inus )?"
    # A minus counts as a sign where it cannot be a subtraction or the dash of a list.
    rf"(?P<sign>(?<![\w)\]}}.%$€£])-|(?<=[=≈(:]) ?- )?{_MAGNITUDE}",
    re.ASCII,
)

_DIGIT = re.compile(rf"[\d{VULGAR_FRACTIONS}]")
_POWER_SIGN = re.compile(r" ?\^")
_FRACTION = re.compile(rf"\\frac\s*(?:\{{\s*({_DECIMAL})\s*\}}\s*\{{\s*({_DECIMAL})\s*\}}|(\d)\s*(\d))", re.ASCII)
_BEFORE_FRACTION = re.compile(r"(?<=\d)\s*(?=\\frac)", re.ASCII)
_NEGATIVE = re.compile(rf"(?<![\w-])negative (?=(?:{_CURRENCY} ?)?[\d.])", re.ASCII | re.IGNORECASE)
_AND_A_HALF = re.compile(r"(?<=\d) and a half(?![\w-])", re.ASCII | re.IGNORECASE)
_SPELLED = re.compile(r" ?\(([a-z -]+)\)", re.IGNORECASE)
_SCALES = {"hundred": 2, "thousand": 3, "lakh": 5, "million": 6, "crore": 7, "billion": 9, "trillion": 12}
_SCALE = re.compile(rf"[ -]?({'|'.join(_SCALES)})s?\b", re.IGNORECASE)


class Number(NamedTuple):
    """
    A number read from a text.

    Args:
        text: The number as written, without decoration: `1234.50`, `-3`, `1 1/2`, `1.8e9`.
    """

    text: str
    value: Fraction


def read_number(text: str) -> Number | None:
    """
    Read a text that consists of one number with at most a currency sign before it and a unit after it.

    A percent sign counts as a unit (`50%` is 50), and so does a currency (`50 cents` is 50). The words hundred to
    trillion multiply. The number may be repeated in words (`7 (seven)`). Not a unit is a letter that may be a variable
    (`2x`) or a scale (`5k`, `£5m`), or anything with another number in it, in digits or words (`18 or 20`,
    `2 thirds`), except powers of a unit.

    Args:
        text: A text from [`plain_text`], of at most `MAX_NUMBER_CHARS` characters.
    Returns: `Number`, or `None` if the text is anything else.
    """
    match = _ALONE.fullmatch(_plain_words(text).strip())
    if match is None:
        return None
    exponent, unit = _exponent(match, match["rest"])
    number = _assemble(match, exponent)
    if number is None:
        return None
    spelled = _SPELLED.match(unit)
    if spelled is not None and number.value in range(100):
        is_same = spelled[1].lower().replace("-", " ") == NUMBERS_IN_WORDS[int(number.value)]
        unit = unit[spelled.end() :] if is_same else unit
    is_whole = is_unit(unit) and not names_scale(unit, after_currency=match["currency"] is not None)
    return number if is_whole else None


def last_number(text: str) -> Number | None:
    """
    Read the last number in `text`, which may have any length.

    Returns: `Number`, or `None` if there is none. It is also `None` if the last one is part of something longer
        (`3.14.15`, `2^5`, `1_000`) or if adjacent text changes it (`2 thirds`, `18 minus three`, `minus 5`, `5k`).
    """
    digit = last_match(_DIGIT, text)
    if digit is None:
        return None
    # Twice the length of the longest number, since `plain_signs` may shorten the text.
    nearby = text[max(0, digit.end() - 2 * MAX_NUMBER_CHARS) : digit.end() + MAX_UNIT_CHARS]
    nearby = strip_unit_powers(_plain_words(plain_signs(nearby)))
    match = last_match(_NUMBER_IN_TEXT, nearby)
    if match is None or match["is_piece"] or len(match[0]) > MAX_NUMBER_CHARS:
        return None
    after = nearby[match.end() :]
    exponent, rest = _exponent(match, after)
    is_changed = (
        _POWER_SIGN.match(rest)
        or changes_number(rest, after_scale=rest != after)
        or names_scale(rest, after_currency=match["currency"] is not None)
    )
    return None if is_changed else _assemble(match, exponent)


def _plain_words(text: str) -> str:
    r"""Rewrite `1\frac12` and `1 and a half` as `1 1/2`, and `negative 5` as `-5`."""
    text = _FRACTION.sub(r"\1\3/\2\4 ", _BEFORE_FRACTION.sub(" ", text))
    return _NEGATIVE.sub("-", _AND_A_HALF.sub(" 1/2", text))


def _exponent(match: re.Match[str], rest: str) -> tuple[int, str]:
    """Return the power of ten that `e3`, `* 10^3` and `thousand` add up to, and the text after them."""
    exponent = int(match["exponent"] or match["power"] or 0)
    for _ in range(2):  # `2 hundred thousand`
        scale = _SCALE.match(rest)
        if scale is not None:
            exponent, rest = exponent + _SCALES[scale[1].lower()], rest[scale.end() :]
    return exponent, rest


def _plain_decimal(text: str) -> str:
    """Normalise `1,234.` to `1234`, `.5` to `0.5` and `007` to `7`."""
    integer, _, decimals = text.replace(",", "").replace(" ", "").partition(".")
    return (integer.lstrip("0") or "0") + (f".{decimals}" if decimals else "")


def _assemble(match: re.Match[str], exponent: int) -> Number | None:
    """Build the number of a match; `None` if it is too large, divides by zero or is ambiguous (`1/2 million`)."""
    if exponent > _MAX_EXPONENT:
        return None
    whole, numerator, denominator = (
        match[name] and _plain_decimal(match[name]) for name in ("whole", "numerator", "denominator")
    )
    if denominator is not None and (exponent or Fraction(denominator) == 0):
        return None
    value = Fraction(numerator) * Fraction(10) ** exponent / Fraction(denominator or 1) + int(whole or 0)
    text = (f"{whole} " if whole else "") + numerator
    text += f"/{denominator}" if denominator else ""
    text += f"e{exponent}" if exponent else ""
    is_negative = ((match["sign"] or "") + (match["inner_sign"] or "")).count("-") == 1
    return Number(f"-{text}", -value) if is_negative and value else Number(text, value)
