"""Strips what is not the answer: thinking blocks, tokens, markup, LaTeX wrappers, typographic signs, punctuation."""

import re
import unicodedata
from collections import deque

from pvg_hf.tasks.answers.words import says_number

VULGAR_FRACTIONS = "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑⅒"
_MINUS_SIGNS = "\u2212\u2010\u2011\u2012\u2013\ufe63\uff0d"  # minus, hyphens, figure and en dash, small and full width
_INVISIBLE = "\u061c\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"  # zero-width, directions, byte order mark
_SIGNS = str.maketrans(
    {
        **dict.fromkeys(_INVISIBLE),
        **dict.fromkeys(_MINUS_SIGNS, "-"),
        **{sign: unicodedata.normalize("NFKC", sign).replace("\N{FRACTION SLASH}", "/") for sign in VULGAR_FRACTIONS},
        "\N{MULTIPLICATION SIGN}": "*",
        "\N{DIVISION SIGN}": "/",
        "\N{FRACTION SLASH}": "/",
        "\N{GREEK SMALL LETTER PI}": "\\pi ",
        "\N{ARABIC PERCENT SIGN}": "%",
        "\N{ARABIC DECIMAL SEPARATOR}": ".",
        "\N{ARABIC THOUSANDS SEPARATOR}": ",",
    }
)

_BEFORE_VULGAR_FRACTION = re.compile(rf"(?<=\d)(?=[{VULGAR_FRACTIONS}])")
_OTHER_DIGIT = re.compile(r"[^\D0-9]")  # full width, Arabic, Devanagari
_SUPERSCRIPT = re.compile(r"[\u207a\u207b]?[\u00b2\u00b3\u00b9\u2070\u2074-\u2079]+")
_SUBSTITUTIONS = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(?<=\d)(?:\{,\}|\\,|\\!|['\u2019\u00a0\u2009\u202f])(?=\d{3}(?!\d))", ","),  # thousands separators
        (r"(?<=\d) ?[xX] ?(?=\$?\d)", "*"),
        (r"\\(?:text|textbf|mathrm|mathbf|mbox|operatorname)\s*\{([^{}]*)\}", r" \1 "),
        (r"\\(?:left|right|displaystyle)(?![A-Za-z])", " "),
        (r"\\[dt]frac(?![A-Za-z])", r"\\frac"),
        (r"\\[()\[\],;:! ]|~", " "),
        (r"\\approx(?![A-Za-z])", "≈"),
        (r"\^\s*(?:\\circ(?![A-Za-z])|\{\s*\\circ\s*\})", "°"),
        (r"(?<=[\w)}])\*\*(?=[\w({-])", "^"),  # 2**3; every other ** is markdown
        (r"\*\*|__", " "),
        (r"\\(?=[$%])", ""),
        (r"[^\S\n]+", " "),
    )
)

_THOUGHT = r"(?:think(?:ing)?|thoughts?|reason(?:ing)?|rationale|analysis|reflection|scratch_?pad)"
_THOUGHT_BEGINS = re.compile(
    rf"[<◁](?:\w{{1,20}}:|\|(?:begin_of_|start_)?)?{_THOUGHT}\|?[>▷]|\[THINK\]|<\|channel\|>analysis<", re.IGNORECASE
)
_THOUGHT_ENDS = re.compile(
    rf"[<◁](?:/(?:\w{{1,20}}:)?|\|(?:/|end_of_|end_)){_THOUGHT}\|?[>▷]|\[/THINK\]|<\|channel\|>final<", re.IGNORECASE
)
_MARKUP = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (r"<[|\uff5c]user[|\uff5c]>|\[INST\]", "\nUser:\n"),
        (r"<[|\uff5c][^<>|\uff5c\n]{1,40}[|\uff5c]>|</?(?:s|eo[st]|bos|pad|(?:start|end)_of_turn)>", "\n"),
        (r"<\|?turn\|?>|\[(?:/INST|EO[ST])\]", "\n"),
        (r"</(?:final[ _]?)?answer>|</?(?:br|hr|p|div|h[1-6]|li|center)(?: [^<>\n]{0,80})?/?>", "\n"),
        (r"</?(?:b|i|u|em|strong|code|mark|span|font)(?: [^<>\n]{0,80})?>", ""),
    )
)

_MATH_DOLLAR = re.compile(r"(?<!\\)\$")
_LEADING = " \t\r\n*_`\"':>"
_TRAILING = " \t\r\n*_`\"'.,;:!?\\"
_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")
_COMMAND = re.compile(r"\\[A-Za-z]+")
_EQUALITY = re.compile(r"[=≈]")
_BRACKETS = re.compile(r"\(([^()\[\]{},]*)\)|\[([^()\[\]{},]*)\]|\{([^()\[\]{},]*)\}")


def final_part(text: str) -> str:
    """
    Return the text after its last thinking block, with line breaks in place of special tokens and HTML.

    What stands before the end of a block is not returned, and neither is a block that is not closed.
    """
    text = _THOUGHT_BEGINS.split(_THOUGHT_ENDS.split(text)[-1], maxsplit=1)[0]
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    return text


def plain_signs(text: str) -> str:
    r"""Normalise each sign to one notation (`-`, `*`, `^{2}`, `1/2`) and remove LaTeX wrappers and markdown."""
    text = _BEFORE_VULGAR_FRACTION.sub(" ", text)
    text = _SUPERSCRIPT.sub(lambda match: f"^{{{unicodedata.normalize('NFKC', match[0])}}}", text)
    text = _OTHER_DIGIT.sub(lambda match: str(unicodedata.decimal(match[0])), text.translate(_SIGNS))
    for pattern, replacement in _SUBSTITUTIONS:
        text = pattern.sub(replacement, text)
    return text


def plain_text(text: str) -> str:
    r"""
    Return the bare text of an answer, e.g. `18` for `**$18$**.`, `\(18\)` and `(18)`.

    Dollar signs in pairs are LaTeX and are removed; a single one is a currency and is kept.
    """
    if len(_MATH_DOLLAR.findall(text)) % 2 == 0:
        text = _MATH_DOLLAR.sub(" ", text)
    text = " ".join(plain_signs(text).split()).lstrip(_LEADING).rstrip(_TRAILING)
    bracketed = _BRACKETS.fullmatch(text)
    return "".join(group or "" for group in bracketed.groups()).strip() if bracketed else text


def answer_side(text: str) -> str | None:
    """
    Return the side of an equation that is the answer: the last side with a digit, or else the last.

    It is `20` for `x = 20`, `20 = x` and `Total = 18 + 2 = 20`; `≈` counts as `=`. A text with neither is returned
    unchanged.

    Returns: `str`, or `None` if a side is empty, or if another side is neither a name nor a calculation, as in `2x =
        18` and `18 since 16 + 2 = 18`.
    """
    sides = _EQUALITY.split(text)
    index = max((index for index, side in enumerate(sides) if _DIGIT.search(side)), default=len(sides) - 1)
    answer = sides.pop(index).strip()
    is_whole = all(map(_is_name_or_calculation, sides)) and (index == len(sides) or bool(sides[-1].strip()))
    return answer if is_whole else None


def _is_name_or_calculation(side: str) -> bool:
    has_number = _DIGIT.search(side) is not None or says_number(side)
    return not (has_number and _LETTER.search(_COMMAND.sub("", side)))


def last_match(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return the last of the non-overlapping matches in `text`."""
    matches = deque(pattern.finditer(text), maxlen=1)
    return matches[0] if matches else None
