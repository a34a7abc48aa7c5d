"""Compares answers that are not plain numbers (`2\\sqrt{3}`, `x + 1`) through math-verify, with bounded work."""

import re
import threading
from fractions import Fraction
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpmath import mpc, mpf
    from sympy import Basic

_MAX_CHARS = 60
_MAX_DIGITS = 12  # per number
_MAX_ROOTS = 3
_MAX_VARIABLES = 3
_MAX_RATIONAL_POWER = 200  # limit on the product of all exponents: (9^9)^9 counts as 81
_MAX_POWER = 12  # the same limit if not only rational numbers are raised, because powers of sums are multiplied out
_TIMEOUT_SECONDS = 5

# Not allowed are plain words, relations (`=`, `<`), which sympy would solve, and the factorial.
_ALLOWED = re.compile(
    r"(?:\\(?:frac|sqrt|pi|cdot|times|div|pm|infty)(?![A-Za-z])|\\[{}]"
    r"|(?<![A-Za-z])(?:[A-Za-z]|[xyz]{2,3}|pi)(?![A-Za-z])|(?<![A-Za-z])sqrt\s*\("
    r"|[-+*/^()\[\]{},.\d\s])+",
    re.ASCII,
)

_COMMAND = re.compile(r"\\[A-Za-z]+|sqrt|pi")
_AMBIGUOUS = re.compile(r"\d\s*[eE]\s*[+-]?\d|\d\s+\d|\.\d*\.", re.ASCII)  # 2e9, 1 2345, and 3.14.15
_POWER = re.compile(r"\^\s*(?:\{([^{}^]*)\}|\(([^()^]*)\)|(-?\d+))(?!\s*\^)", re.ASCII)
_DECIMAL = re.compile(r"(\d*)\.(\d+)", re.ASCII)
_INTEGER = re.compile(r"\s*-?\d+\s*", re.ASCII)


@lru_cache(maxsize=4096)
def parse_expression(text: str) -> "Basic | None":
    """
    Parse a short LaTeX or plain expression.

    Nothing is evaluated here, and no text reaches Python's `eval`: only math-verify's LaTeX grammar is used. The form
    is checked first, so that no text can make parsing or a later comparison explode (`9^9^9`, `(a+b+c)^99`).

    Returns: The expression, or `None` if the text has another form, is too large or cannot be parsed.
    """
    if not _is_bounded(text):
        return None
    # Imported here because sympy takes half a second to import, and tasks with plain numbers never need it.
    from math_verify import LatexExtractionConfig, parse  # type: ignore[import-untyped]  # it ships no types
    from sympy import nan, zoo

    found = parse(
        f"${_to_latex(text)}$",
        extraction_config=[LatexExtractionConfig()],
        fallback_mode="no_fallback",
        parsing_timeout=_timeout_seconds(),
    )
    return found[0] if found and not found[0].has(zoo, nan) else None


def to_expression(value: Fraction) -> "Basic":
    """Convert a number to an exact sympy one."""
    from sympy import Rational

    return Rational(value.numerator, value.denominator)


def exact_value(text: str) -> Fraction | None:
    """Return the value of a calculation with `+`, `-`, `*` and `/` of rational numbers; `None` for anything else."""
    expression = parse_expression(text)
    try:
        return None if expression is None else _to_fraction(expression)
    except ZeroDivisionError:
        return None


def _to_fraction(expression: "Basic") -> Fraction | None:
    from sympy import Add, Mul, Pow, Rational, S

    if isinstance(expression, Rational):
        return Fraction(expression.p, expression.q)
    values = [value for value in map(_to_fraction, expression.args) if value is not None]
    if not values or len(values) < len(expression.args):
        return None
    if isinstance(expression, Pow):
        return 1 / values[0] if expression.args[1] == S.NegativeOne else None
    if isinstance(expression, Add):
        return sum(values, Fraction(0))
    return prod(values, start=Fraction(1)) if isinstance(expression, Mul) else None


def is_number_expression(text: str) -> bool:
    r"""
    Whether a text is an expression of one real number: `2\sqrt{3}` or `5 + 3`, but no letter (not even `e`) or list.
    """
    expression = parse_expression(text)
    if expression is None:
        return False
    from mpmath import mpf

    try:
        return isinstance(_rounded(expression), mpf)
    except ZeroDivisionError:
        return False


def _rounded(expression: "Basic") -> "mpf | mpc | None":
    """Evaluate to 15 digits; `None` for an expression that is not built of sums, products and powers of numbers."""
    # sympy's own `is_real` and `evalf` raise errors of many types on a hidden division by zero.
    from mpmath import fprod, fsum, mpf, pi, power
    from sympy import Add, Mul, Pow, Rational, S

    if isinstance(expression, Rational):
        return mpf(expression.p) / expression.q
    if expression is S.Pi:
        return +pi
    values = [_rounded(argument) for argument in expression.args]
    if None in values or not isinstance(expression, Add | Mul | Pow):
        return None
    if isinstance(expression, Pow):
        return power(*values)
    return fsum(values) if isinstance(expression, Add) else fprod(values)


def expressions_equal(first: "Basic", second: "Basic") -> bool:
    """Whether math-verify finds two expressions equal, in either order (it treats the first as the reference)."""
    if first.free_symbols != second.free_symbols:  # `_is_bounded` relies on this: variables never meet roots
        return False
    from math_verify import verify

    seconds = _timeout_seconds()
    return verify(first, second, timeout_seconds=seconds) or verify(second, first, timeout_seconds=seconds)


def _to_latex(text: str) -> str:
    text = re.sub(r"(?<![A-Za-z\\])sqrt\s*\(([^()]*)\)", r"\\sqrt{\1}", text)
    text = re.sub(r"(?<![A-Za-z\\])pi(?![A-Za-z])", r"\\pi ", text)
    # Decimals become fractions: floats would be rounded before comparison, and slow down sympy's root simplification.
    text = _DECIMAL.sub(lambda match: rf"\frac{{{match[1]}{match[2]}}}{{1{'0' * len(match[2])}}}", text)
    return text.replace("*", r"\cdot ")


def _is_bounded(text: str) -> bool:
    if len(text) > _MAX_CHARS or _ALLOWED.fullmatch(text) is None or _AMBIGUOUS.search(text):
        return False
    exponents = ["".join(groups) for groups in _POWER.findall(text)]
    if len(exponents) < text.count("^"):  # a tower, or an exponent of another form
        return False
    numbers = re.findall(r"\d+", text)
    variables = set(re.findall(r"[A-Za-z]", _COMMAND.sub(" ", text)))
    num_roots = text.count("sqrt") + sum(_INTEGER.fullmatch(exponent) is None for exponent in exponents)
    is_rational = not variables and not num_roots and "pi" not in text
    power = prod(max(1, int(digits)) for exponent in exponents for digits in re.findall(r"\d+", exponent))
    return (
        bool(numbers or variables or "pi" in text or r"\infty" in text)
        and max(map(len, numbers), default=0) <= _MAX_DIGITS
        and power <= (_MAX_RATIONAL_POWER if is_rational else _MAX_POWER)
        and len(variables) <= _MAX_VARIABLES
        and num_roots <= (0 if variables else _MAX_ROOTS)  # roots of variables can take sympy minutes to simplify
    )


def _timeout_seconds() -> int | None:
    # math-verify uses `signal.alarm`, which only works in the main thread; others rely on `_is_bounded`.
    return _TIMEOUT_SECONDS if threading.current_thread() is threading.main_thread() else None
