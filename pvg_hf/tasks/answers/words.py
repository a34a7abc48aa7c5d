"""Distinguishes units (`apples`, `km/h`) from words that change the number before them (`thirds`, `minus two`)."""

import re

MAX_UNIT_CHARS = 100
_TEEN = r"(?:thir|four|fif|six|seven|eigh|nine)teen"
_TENS = r"(?:twen|thir|for|fif|six|seven|eigh|nine)t"
_SCALE = r"(?:hundred|thousand|lakh|crore|(?:m|b|tr|quadr|quint)illion)"
_DIGITS = "zero|one|two|three|four|five|six|seven|eight|nine"
_FROM_TEN = "ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen"
_FROM_TWENTY = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
NUMBERS_IN_WORDS = (  # 0 to 99
    *f"{_DIGITS}|{_FROM_TEN}".split("|"),
    *(f"{tens} {one}".removesuffix(" zero") for tens in _FROM_TWENTY.split("|") for one in _DIGITS.split("|")),
)
_CARDINAL = rf"(?:{_DIGITS}|{_FROM_TEN}|{_FROM_TWENTY}|{_SCALE}s?|dozens?)"
_ORDINAL = rf"(?:third|(?:four|fif|six|seven|eigh|nin|ten|eleven|twelf|{_TEEN}|{_TENS}ie|{_SCALE})th)"
_PART = r"(?:quarters?|half|halves)"
_OPERATION = (
    r"(?:plus|minus|negative|multiplied|divided|factorial|squared|cubed"
    r"|doubled|tripled|quadrupled|halved|twice|thrice)"
)

_FALSE = r"(?:wrong|incorrect|false)"
_DENIAL = rf"(?:is|was)(?:n['\u2019]t|\s(?:not|{_FALSE}))"
_NEGATION = rf"(?:not|no|never|neither|nor|none|or|except|instead|{_FALSE}(?!\s\w)|{_DENIAL})"
_OTHER_NUMBER = re.compile(
    rf"\b(?:{_CARDINAL}|{_ORDINAL}s?|{_PART}|{_OPERATION}|{_NEGATION})\b|n['\u2019]t\b", re.IGNORECASE
)

# Fewer words than in `_OTHER_NUMBER`, because running text after a number is mostly a unit or a new thought:
# `17 incorrect answers`, `9 fourth graders`, `5 quarters`, `$20 four months from now`.
_CHANGE = re.compile(rf"[ -]?(?:{_ORDINAL}s|(?:{_ORDINAL}|{_PART}) of|{_OPERATION}|{_DENIAL})(?![\w-])", re.IGNORECASE)

_MORE_OF_SCALE = re.compile(rf"[ -]?(?:and )?{_CARDINAL}(?!\w)", re.IGNORECASE)  # `2 thousand five hundred`

# `5k` and `5 bn` are scales; `5m` is one only next to a currency, otherwise a length. `5 M&Ms` are five.
_SCALE_WORD = r"(?i:[mbt]n|[mb]ln|mil)"
_MONEY_SCALE = rf" ?(?:[kKmMbBT]|{_SCALE_WORD})(?![\w&])"
_MONEY = r" ?(?:[$€£¥₹₱₩]|(?:dollars|euros|pounds|USD|EUR|GBP)\b)"
_SCALE_SIGN = re.compile(rf"(?:[kKMB]| ?{_SCALE_WORD})(?![\w&])|{_MONEY_SCALE}{_MONEY}")
_SCALE_SIGN_OF_MONEY = re.compile(_MONEY_SCALE)
_UNIT = re.compile(  # letters and signs, but no digit and no dash that may be a minus
    r"(?:[^\W\d_]|[%°$¢€£¥₹₱₩.,;:'\"\u2019()/\s]|(?<!\s)-(?=[^\W\d_]))*"
)

_UNIT_POWER = re.compile(r"(?<=[^\W\d_])\s?(?:\^(?:[23]|\{[23]\})|(?:squared|cubed)\b)")  # cm^2
_WORD = re.compile(r"[^\W\d_]+")
_UNIT_LETTERS = frozenset("mgshlLCF")
_ATTACHED_VARIABLES = re.compile(r"[xyzabn]{1,3}\b")
_MATH_NAMES = frozenset({"pi", "sqrt", "sin", "cos", "tan", "log", "ln", "exp"})


def says_number(text: str) -> bool:
    """Whether a word of `text` names, changes or negates a number: `half`, `dozen`, `squared`, `not`."""
    return _OTHER_NUMBER.search(text) is not None


def changes_number(text: str, after_scale: bool) -> bool:
    """
    Whether running text begins with words that change the number before it: ` thirds of it`, ` minus the tax`.

    After a scale such as `thousand`, more of the number may follow: ` and fifty`.
    """
    return _CHANGE.match(text) is not None or (after_scale and _MORE_OF_SCALE.match(text) is not None)


def names_scale(text: str, after_currency: bool) -> bool:
    """Whether a text begins with a sign for thousands, millions or billions: `k`, ` bn`, or `m` after a currency."""
    return (_SCALE_SIGN_OF_MONEY if after_currency else _SCALE_SIGN).match(text) is not None


def strip_unit_powers(text: str) -> str:
    """Remove powers of units: `cm^2` becomes `cm`, `meters cubed` becomes `meters`."""
    return _UNIT_POWER.sub("", text)


def is_unit(text: str) -> bool:
    """Whether the text after a number only says what is counted: nothing at all, ` apples`, `%`, ` km/h`."""
    text = strip_unit_powers(text)
    if len(text) > MAX_UNIT_CHARS or _UNIT.fullmatch(text) is None or any(map(str.isnumeric, text)):
        return False
    if _ATTACHED_VARIABLES.match(text) or says_number(text):
        return False
    words = _WORD.findall(text)
    return not words or any(word in _UNIT_LETTERS or (len(word) > 1 and word not in _MATH_NAMES) for word in words)
