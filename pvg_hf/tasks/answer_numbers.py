"""Reads numbers as people write them: `$1,234.50`, `50%`, `1 1/2 cups`, `1.8 billion`, `2 * 10^3`."""

import re
from fractions import Fraction
from typing import NamedTuple

_INTEGER = r"(?:\d{1,3}(?:,\d{2,3})*,\d{3}|\d+)"  # 1,234,567 and 12,34,567 (Indian grouping), not 1,23
_DECIMAL = rf"(?:{_INTEGER}(?:\.\d*)?|\.\d+)"
_CURRENCY = r"(?:(?:US|CA|AU)?\$|[€£¥₹₱₩]|(?:USD|EUR|GBP|Rs\.?)(?=[\s\d]))?"
_NUMBER = re.compile(
    rf"(?P<sign>[+-]?)\s*{_CURRENCY}\s*(?P<inner_sign>[+-]?)\s*"
    rf"(?:(?P<whole>{_INTEGER})\s+(?:and\s+)?)?(?P<numerator>{_DECIMAL})(?:\s*/\s*(?P<denominator>{_DECIMAL}))?"
    # At most three digits of exponent: 10**999 is cheap to write out, 10**999999999 is not.
    r"(?:[eE](?P<exponent>[+-]?\d{1,3})|\s*(?:\*|x|\\times|\\cdot)\s*10\s*\^\s*\{?(?P<power>[+-]?\d{1,3})\}?)?"
    r"(?P<unit>.*)",
    re.ASCII | re.DOTALL,
)
_FRACTION = re.compile(rf"\\frac\s*(?:\{{\s*({_DECIMAL})\s*\}}\s*\{{\s*({_DECIMAL})\s*\}}|(\d)\s*(\d))", re.ASCII)
_SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_SCALE = re.compile(rf"\s*({'|'.join(_SCALES)})s?\b", re.IGNORECASE)

_MAX_UNIT_CHARS = 100
_UNIT = re.compile(r"(?:[^\W\d_]|[%°$¢€£¥₹₱₩.,;:'\"\u2019()/\s-])*")  # letters and signs, no digit
_UNIT_POWER = re.compile(r"(?<=[^\W\d_)])\s?\^(?:[23]|\{[23]\})")  # cm^2
_WORD = re.compile(r"[^\W\d_]+")
_UNIT_LETTERS = frozenset("mgshlLCF")
_ATTACHED_VARIABLES = re.compile(r"[xyzabn]{1,3}\b")
_MATH_NAMES = frozenset({"pi", "sqrt", "sin", "cos", "tan", "log", "ln", "exp"})


class Number(NamedTuple):
    """
    A number that was read.

    Args:
        text (`str`):
            As it was written, without what only decorates it: `1234.50`, `-3`, `1 1/2`, `1.8e9`.
        value (`Fraction`):
            Exact.
    """

    text: str
    value: Fraction


def read_number(text: str) -> Number | None:
    """
    Read a text that is one number and at most a currency sign before it and a unit after it.

    A percent sign is a unit like any other (`50%` is 50), and so is a currency (`50 cents` is 50). The words hundred to
    trillion multiply. A letter that may be a variable (`2x`) is no unit, and neither is anything with a digit in it
    (`18 or 20`), powers of a unit aside.

    Returns:
        `Number`, or `None` if the text is anything else.
    """
    match = _NUMBER.fullmatch(_FRACTION.sub(r" \1\3/\2\4 ", text).strip())
    if match is None:
        return None
    exponent, unit = _exponent(match)
    parts = [match[name] and _plain_decimal(match[name]) for name in ("whole", "numerator", "denominator")]
    has_bad_form = (parts[0] and not parts[2]) or (exponent and parts[2])  # `18 20`, and `1/2 million`
    if has_bad_form or not _is_unit(unit):
        return None
    return _assemble(match["sign"] + match["inner_sign"], *parts, exponent)


def _exponent(match: re.Match[str]) -> tuple[int, str]:
    """The power of ten from `e3`, `* 10^3` and `thousand` together, and what is left of the unit."""
    exponent, unit = int(match["exponent"] or match["power"] or 0), match["unit"]
    for _ in range(2):  # `2 hundred thousand`
        scale = _SCALE.match(unit)
        if scale is not None:
            exponent, unit = exponent + _SCALES[scale[1].lower()], unit[scale.end() :]
    return exponent, unit


def _plain_decimal(text: str) -> str:
    """`1,234.` to `1234`, `.5` to `0.5`, `007` to `7`."""
    integer, _, decimals = text.replace(",", "").partition(".")
    return (integer.lstrip("0") or "0") + (f".{decimals}" if decimals else "")


def _assemble(sign: str, whole: str | None, numerator: str, denominator: str | None, exponent: int) -> Number | None:
    value = Fraction(numerator) * Fraction(10) ** exponent
    if denominator is not None:
        if Fraction(denominator) == 0:
            return None
        value /= Fraction(denominator)
    value += int(whole or 0)
    text = (f"{whole} " if whole else "") + numerator
    text += f"/{denominator}" if denominator else ""
    text += f"e{exponent}" if exponent else ""
    return Number(f"-{text}", -value) if sign.count("-") == 1 and value else Number(text, value)


def _is_unit(text: str) -> bool:
    text = _UNIT_POWER.sub("", text)
    if len(text) > _MAX_UNIT_CHARS or _UNIT.fullmatch(text) is None or _ATTACHED_VARIABLES.match(text):
        return False
    words = _WORD.findall(text)
    return not words or any(word in _UNIT_LETTERS or (len(word) > 1 and word not in _MATH_NAMES) for word in words)
