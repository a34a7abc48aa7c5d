"""Takes from an answer's text what only decorates it: markdown, LaTeX wrappers, typographic signs, punctuation."""

import re
from collections import deque

_MINUS_SIGNS = "\u2212\u2010\u2011\u2012\u2013\ufe63\uff0d"  # minus, hyphens, figure and en dash, small and full width
_SIGNS = str.maketrans(
    {
        **dict.fromkeys(_MINUS_SIGNS, "-"),
        "\N{MULTIPLICATION SIGN}": "*",
        "\N{DIVISION SIGN}": "/",
        "\N{FRACTION SLASH}": "/",
        "\N{ALMOST EQUAL TO}": "=",
        "\N{GREEK SMALL LETTER PI}": "\\pi ",
        "\N{SUPERSCRIPT TWO}": "^2",
        "\N{SUPERSCRIPT THREE}": "^3",
        "½": " 1/2",
        "⅓": " 1/3",
        "⅔": " 2/3",
        "¼": " 1/4",
        "¾": " 3/4",
    }
)
_SUBSTITUTIONS = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(?<=\d)(?:\{,\}|\\,|\\!|[\u00a0\u2009\u202f])(?=\d{3}(?!\d))", ","),  # typeset thousands separators
        (r"\\(?:text|textbf|mathrm|mathbf|mbox|operatorname)\s*\{([^{}]*)\}", r" \1 "),
        (r"\\(?:left|right|displaystyle)(?![A-Za-z])", " "),
        (r"\\[dt]frac(?![A-Za-z])", r"\\frac"),
        (r"\\[()\[\],;:! ]|~", " "),
        (r"\\approx(?![A-Za-z])", "="),
        (r"\^\s*(?:\\circ(?![A-Za-z])|\{\s*\\circ\s*\})", "°"),
        (r"(?<=[\w)}])\*\*(?=[\w({-])", "^"),  # 2**3; every other ** is markdown
        (r"\*\*|__", " "),
    )
)
_NUMBER = re.compile(
    rf"(?:(?<![\w)\]}}.])[-{_MINUS_SIGNS}])?[$€£]?(?:(?:\d{{1,3}}(?:,\d{{3}})+(?!\d)|\d+)(?:\.\d+)?|\.\d+)(?:/\d+)?"
    r"(?: (?:thousand|million|billion|trillion)\b)?",
    re.ASCII,
)
_MATH_DOLLAR = re.compile(r"(?<!\\)\$")
_LEADING = " \t\r\n*_`\"':>"
_TRAILING = " \t\r\n*_`\"'.,;:!?\\"
_BRACKETS = re.compile(r"\(([^()\[\]{},]*)\)|\[([^()\[\]{},]*)\]|\{([^()\[\]{},]*)\}")


def plain_text(text: str) -> str:
    r"""
    The bare text of an answer, e.g. `18` from `**$18$**.`, `\(18\)` and `(18)`.

    Dollar signs in pairs are LaTeX and go, a single one is a currency and stays.
    """
    text = text.translate(_SIGNS)
    if len(_MATH_DOLLAR.findall(text)) % 2 == 0:
        text = _MATH_DOLLAR.sub(" ", text)
    for pattern, replacement in _SUBSTITUTIONS:
        text = pattern.sub(replacement, text)
    text = text.replace(r"\$", "$").replace(r"\%", "%")
    text = " ".join(text.split()).lstrip(_LEADING).rstrip(_TRAILING)
    bracketed = _BRACKETS.fullmatch(text)
    return "".join(group or "" for group in bracketed.groups()).strip() if bracketed else text


def right_hand_side(text: str) -> str | None:
    """
    What stands after the last `=`: `20` of `x = 20`, `Total = 18 + 2 = 20`; the text itself where there is no `=`.

    Returns:
        `str`, or `None` if a part before it is neither a name nor a calculation, as in `18 since 16 + 2 = 18`.
    """
    *left, last = text.split("=")
    has_prose = any(re.search(r"\d", part) and re.search(r"(?<!\\)\b[^\W\d_]{2,}", part) for part in left)
    return None if has_prose else last.strip()


def last_match(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The last of the matches that follow one another in `text`."""
    matches = deque(pattern.finditer(text), maxlen=1)
    return matches[0] if matches else None


def last_number_text(text: str) -> str | None:
    """The last number that stands anywhere in `text`, as written; a minus counts where it cannot be a subtraction."""
    match = last_match(_NUMBER, text)
    return match and match[0]
