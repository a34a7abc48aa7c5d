"""Specifications of small functions: a grammar of sentences, and a reference interpreter that says what each means."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import prod
from typing import Any, NamedTuple

import numpy as np

FUNCTION = "f"
"""Name of every function."""

DIFFICULTIES = (1, 5)
"""Smallest and largest number of parts of a specification."""

LETTERS = ("'a'", "'b'", "'e'", "'o'")
_SMALL = tuple(range(2, 10))


@dataclass(frozen=True)
class Rule:
    """
    One phrase of the grammar, with its code and its meaning.

    Args:
        phrase: Words in a specification, with `{k}` where a constant stands.
        code: Python expression over `{x}` and `{k}`.
        meaning: Function `(value, constant) -> value`.
        constants: Allowed constants, numbers or letters in quotes; empty if the phrase has none.
        kind: Kind of the values after a change, if it differs from the kind before it.
    """

    phrase: str
    code: str
    meaning: Callable[[Any, Any], Any]
    constants: tuple[Any, ...] = ()
    kind: str | None = None


@dataclass(frozen=True)
class Source:
    """
    Where the elements of a specification come from.

    Args:
        iterable, partial: Python expression of all elements, and expressions that miss some or have one too many.
        kind: `number`, `letter` or `word`.
        elements: Function from the argument to its elements.
    """

    phrase: str
    parameter: str
    item: str
    iterable: str
    partial: tuple[str, ...]
    kind: str
    elements: Callable[[Any], Sequence[Any]]
    guards: str


@dataclass(frozen=True)
class Fold:
    """
    What a specification asks for about its elements.

    Args:
        meaning: Function `(elements, default) -> value`.
        result: Kind of the value: `number`, `text` or `list`.
        defaults: Literals of the value for no elements; empty if the fold needs none.
        is_changeable: Whether the value depends on changes of the elements.
    """

    phrase: str
    meaning: Callable[[list[Any], Any], Any]
    result: str
    defaults: tuple[str, ...] = ()
    is_changeable: bool = True


SOURCES = {
    "xs": Source("numbers of xs", "xs", "x", "xs", ("xs[1:]", "xs[:-1]"), "number", lambda xs: xs, "list"),
    "range": Source(
        "numbers from 1 to n",
        "n",
        "i",
        "range(1, n + 1)",
        ("range(1, n)", "range(n)", "range(n + 1)", "range(2, n + 1)"),
        "number",
        lambda n: range(1, n + 1),
        "number",
    ),
    "digits": Source(
        "digits of n",
        "n",
        "d",
        "map(int, str(n))",
        ("map(int, str(n)[1:])", "map(int, str(n)[:-1])"),
        "number",
        lambda n: [int(digit) for digit in str(n)],
        "number",
    ),
    "letters": Source("letters of s", "s", "c", "s", ("s[1:]", "s[:-1]"), "letter", lambda s: s, "text"),
    "words": Source(
        "words of s",
        "s",
        "w",
        "s.split()",
        ("s.split()[1:]", "s.split()[:-1]"),
        "word",
        lambda s: s.split(" ") if s else [],
        "text",
    ),
}
"""Sources by name."""

CONDITIONS: dict[str, dict[str, Rule]] = {
    "number": {
        "even": Rule("that are even", "{x} % 2 == 0", lambda x, k: x % 2 == 0),
        "odd": Rule("that are odd", "{x} % 2 == 1", lambda x, k: x % 2 == 1),
        "positive": Rule("that are positive", "{x} > 0", lambda x, k: x > 0),
        "negative": Rule("that are negative", "{x} < 0", lambda x, k: x < 0),
        "above": Rule("that are above {k}", "{x} > {k}", lambda x, k: x > k, _SMALL),
        "below": Rule("that are below {k}", "{x} < {k}", lambda x, k: x < k, _SMALL),
        "at_least": Rule("that are at least {k}", "{x} >= {k}", lambda x, k: x >= k, _SMALL),
        "at_most": Rule("that are at most {k}", "{x} <= {k}", lambda x, k: x <= k, _SMALL),
        "multiple": Rule("that are multiples of {k}", "{x} % {k} == 0", lambda x, k: x % k == 0, (3, 4, 5)),
        "different": Rule("that differ from {k}", "{x} != {k}", lambda x, k: x != k, _SMALL),
    },
    "letter": {
        "vowel": Rule("that are vowels", "{x} in 'aeiou'", lambda x, k: x in set("aeiou")),
        "digit": Rule("that are digits", "{x}.isdigit()", lambda x, k: x in set("0123456789")),
        "upper": Rule("that are in upper case", "{x}.isupper()", lambda x, k: "A" <= x <= "Z"),
        "lower": Rule("that are in lower case", "{x}.islower()", lambda x, k: "a" <= x <= "z"),
        "equal": Rule("that equal {k}", "{x} == {k}", lambda x, k: x == k, LETTERS),
        "different": Rule("that differ from {k}", "{x} != {k}", lambda x, k: x != k, LETTERS),
    },
    "word": {
        "longer": Rule("that are longer than {k}", "len({x}) > {k}", lambda x, k: len(x) > k, (2, 3, 4)),
        "shorter": Rule("that are shorter than {k}", "len({x}) < {k}", lambda x, k: len(x) < k, (2, 3, 4)),
        "starts": Rule("that start with {k}", "{x}[0] == {k}", lambda x, k: x[:1] == k, LETTERS),
        "ends": Rule("that end with {k}", "{x}[-1] == {k}", lambda x, k: x[-1:] == k, LETTERS),
        "contains": Rule("that contain {k}", "{k} in {x}", lambda x, k: k in set(x), LETTERS),
    },
}
"""Conditions by kind of element and name."""

CHANGES: dict[str, dict[str, Rule]] = {
    "number": {
        "doubled": Rule("each doubled", "{x} * 2", lambda x, k: x + x),
        "squared": Rule("each squared", "{x} * {x}", lambda x, k: x**2),
        "negated": Rule("each negated", "-{x}", lambda x, k: 0 - x),
        "times": Rule("each times {k}", "{x} * {k}", lambda x, k: x * k, (3, 4, 5, 6, 7, 8, 9)),
        "plus": Rule("each plus {k}", "{x} + {k}", lambda x, k: x + k, _SMALL),
        "minus": Rule("each minus {k}", "{x} - {k}", lambda x, k: x - k, _SMALL),
    },
    "letter": {
        "doubled": Rule("each doubled", "{x} * 2", lambda x, k: x + x),
        "upper": Rule("each in upper case", "{x}.upper()", lambda x, k: x.upper()),
        "lower": Rule("each in lower case", "{x}.lower()", lambda x, k: x.lower()),
    },
    "word": {
        "reversed": Rule("each reversed", "{x}[::-1]", lambda x, k: "".join(reversed(x))),
        "upper": Rule("each in upper case", "{x}.upper()", lambda x, k: x.upper()),
        "first": Rule("each as its first letter", "{x}[0]", lambda x, k: x[0], kind="letter"),
        "length": Rule("each as its length", "len({x})", lambda x, k: len(x), kind="number"),
    },
}
"""Changes of each element, by kind of element and name."""

GUARDS: dict[str, dict[str, Rule]] = {
    "list": {
        "more": Rule("{x} has more than {k} elements", "len({x}) > {k}", lambda x, k: len(x) > k, (2, 3, 4, 5)),
        "fewer": Rule("{x} has fewer than {k} elements", "len({x}) < {k}", lambda x, k: len(x) < k, (2, 3, 4, 5)),
    },
    "number": {
        "above": Rule("{x} is above {k}", "{x} > {k}", lambda x, k: x > k, _SMALL),
        "below": Rule("{x} is below {k}", "{x} < {k}", lambda x, k: x < k, _SMALL),
    },
    "text": {
        "more": Rule("{x} has more than {k} letters", "len({x}) > {k}", lambda x, k: len(x) > k, (4, 5, 6, 7)),
        "fewer": Rule("{x} has fewer than {k} letters", "len({x}) < {k}", lambda x, k: len(x) < k, (4, 5, 6, 7)),
    },
}
"""Conditions on the argument, by the source's `guards` and name."""

_NUMBERS = ("0", "1", "-1")
_TEXTS = ("'none'", "'-'")

FOLDS: dict[str, dict[str, Fold]] = {
    "number": {
        "sum": Fold("sum", lambda xs, d: sum(xs), "number"),
        "count": Fold("number", lambda xs, d: len(xs), "number", is_changeable=False),
        "product": Fold("product", lambda xs, d: prod(xs), "number"),
        "largest": Fold("largest", lambda xs, d: sorted(xs)[-1] if xs else d, "number", _NUMBERS),
        "smallest": Fold("smallest", lambda xs, d: sorted(xs)[0] if xs else d, "number", _NUMBERS),
        "first": Fold("first", lambda xs, d: xs[0] if xs else d, "number", _NUMBERS),
        "last": Fold("last", lambda xs, d: xs[-1] if xs else d, "number", _NUMBERS),
        "list": Fold("list", lambda xs, d: xs, "list"),
        "reversed": Fold("reversed list", lambda xs, d: list(reversed(xs)), "list"),
        "sorted": Fold("sorted list", lambda xs, d: sorted(xs), "list"),
        "running": Fold("list of running sums", lambda xs, d: list(accumulate(xs)), "list"),
    },
    "letter": {
        "count": Fold("number", lambda xs, d: len(xs), "number", is_changeable=False),
        "first": Fold("first", lambda xs, d: xs[0] if xs else d, "text", _TEXTS),
        "last": Fold("last", lambda xs, d: xs[-1] if xs else d, "text", _TEXTS),
        "string": Fold("string", lambda xs, d: "".join(xs), "text"),
        "backwards": Fold("reversed string", lambda xs, d: "".join(reversed(xs)), "text"),
    },
    "word": {
        "count": Fold("number", lambda xs, d: len(xs), "number", is_changeable=False),
        "first": Fold("first", lambda xs, d: xs[0] if xs else d, "text", _TEXTS),
        "last": Fold("last", lambda xs, d: xs[-1] if xs else d, "text", _TEXTS),
        "list": Fold("list", lambda xs, d: xs, "list"),
        "reversed": Fold("reversed list", lambda xs, d: list(reversed(xs)), "list"),
        "sorted": Fold("sorted list", lambda xs, d: sorted(xs), "list"),
        "joined": Fold("joined string", lambda xs, d: "-".join(xs), "text"),
    },
}
"""Folds by kind of element and name."""

LITERALS = {"number": _NUMBERS, "text": _TEXTS, "list": ("[]",)}
"""Literals that a guard may return, by kind of the result."""

VALUES: Mapping[str, Any] = {"0": 0, "1": 1, "-1": -1, "'none'": "none", "'-'": "-", "[]": []}
"""Values of the literals."""


class Term(NamedTuple):
    """A rule's name with its constant, if it has one."""

    name: str
    constant: Any = None

    @property
    def value(self) -> Any:
        """The constant's value: a number, or a letter without its quotes."""
        return self.constant.strip("'") if isinstance(self.constant, str) else self.constant


@dataclass(frozen=True)
class Specification:
    """
    What a function returns.

    Args:
        conditions (`tuple[Term, ...]`, *optional*): Conditions on the elements, at most two.
        default (`str`, *optional*): Literal of the value for no elements, if the fold needs one.
        guard (`Term`, *optional*), guarded_value (`str`, *optional*):
            Condition on the argument, and literal that the function then returns.
    """

    source: str
    fold: str
    conditions: tuple[Term, ...] = ()
    change: Term | None = None
    default: str | None = None
    guard: Term | None = None
    guarded_value: str | None = None

    @property
    def origin(self) -> Source:
        """The source of the elements."""
        return SOURCES[self.source]

    @property
    def kind(self) -> str:
        """Kind of the elements after their change."""
        changed = None if self.change is None else CHANGES[self.origin.kind][self.change.name].kind
        return changed or self.origin.kind

    @property
    def difficulty(self) -> int:
        """Number of parts: the fold, the conditions, the change and the guard; 1 to 5."""
        return 1 + len(self.conditions) + (self.change is not None) + (self.guard is not None)

    @property
    def constants(self) -> list[int]:
        """The numbers that the specification compares with."""
        terms = (*self.conditions, self.guard)
        return [term.constant for term in terms if term is not None and isinstance(term.constant, int)]

    @property
    def text(self) -> str:
        """The sentence."""
        origin, fold = self.origin, FOLDS[self.kind][self.fold]
        rules = CONDITIONS[origin.kind]
        sentence = f"the {fold.phrase} of the {origin.phrase}"
        if self.conditions:
            sentence += " " + " and ".join(_phrase(rules[term.name], term) for term in self.conditions)
        if self.change is not None:
            sentence += f", {_phrase(CHANGES[origin.kind][self.change.name], self.change)}"
        if self.default is not None:
            sentence += f", or {self.default} if there is none"
        if self.guard is not None:
            guard = _phrase(GUARDS[origin.guards][self.guard.name], self.guard, origin.parameter)
            sentence = f"{self.guarded_value} if {guard}, otherwise {sentence}"
        return f"Return {sentence}."


def _phrase(rule: Rule, term: Term, parameter: str = "") -> str:
    return rule.phrase.format(k=term.constant, x=parameter)


def evaluate(specification: Specification, argument: Any) -> Any:
    """Return what a function with this specification returns for an argument: the reference interpreter."""
    origin = specification.origin
    guard = specification.guard
    if guard is not None and GUARDS[origin.guards][guard.name].meaning(argument, guard.value):
        return VALUES[specification.guarded_value]
    rules = CONDITIONS[origin.kind]
    kept = [
        element
        for element in origin.elements(argument)
        if all(rules[term.name].meaning(element, term.value) for term in specification.conditions)
    ]
    if specification.change is not None:
        change = CHANGES[origin.kind][specification.change.name]
        kept = [change.meaning(element, specification.change.value) for element in kept]
    fold = FOLDS[specification.kind][specification.fold]
    return fold.meaning(kept, None if specification.default is None else VALUES[specification.default])


def sample_specification(rng: np.random.Generator, difficulty: int) -> Specification:
    """Draw a specification with `difficulty` parts, 1 to 5."""
    source = _choose(rng, tuple(SOURCES))
    origin = SOURCES[source]
    optional = ["condition", "condition", "change", "guard"]
    parts = [optional[place] for place in rng.permutation(len(optional))[: difficulty - 1]]
    changes = CHANGES[origin.kind]
    change = sample_term(rng, changes) if "change" in parts else None
    kind = (changes[change.name].kind if change else None) or origin.kind
    folds = [name for name, fold in FOLDS[kind].items() if fold.is_changeable or change is None]
    fold = _choose(rng, folds)
    conditions = sample_conditions(rng, origin.kind, parts.count("condition"))
    defaults = FOLDS[kind][fold].defaults
    has_guard = "guard" in parts
    return Specification(
        source,
        fold,
        conditions,
        change,
        _choose(rng, defaults) if defaults else None,
        sample_term(rng, GUARDS[origin.guards]) if has_guard else None,
        _choose(rng, LITERALS[FOLDS[kind][fold].result]) if has_guard else None,
    )


def sample_conditions(rng: np.random.Generator, kind: str, number: int) -> tuple[Term, ...]:
    """Draw conditions of different names."""
    names = list(CONDITIONS[kind])
    chosen = [names[place] for place in rng.permutation(len(names))[:number]]
    return tuple(sample_term(rng, {name: CONDITIONS[kind][name]}) for name in chosen)


def sample_term(rng: np.random.Generator, rules: Mapping[str, Rule]) -> Term:
    """Draw one of some rules, with a constant if it has one."""
    name = _choose(rng, tuple(rules))
    constants = rules[name].constants
    return Term(name, _choose(rng, constants) if constants else None)


def _choose(rng: np.random.Generator, choices: Sequence[Any]) -> Any:
    return choices[int(rng.integers(len(choices)))]


_SENTENCE = re.compile(
    r"Return (?:(?P<value>\S+) if (?P<guard>.+?), otherwise )?the (?P<fold>[a-z ]+?) of the (?P<source>[a-z0-9 ]+? of"
    r" (?:xs|n|s)|numbers"
    r" from 1 to n)(?: (?P<conditions>that .+?))?(?:, (?P<change>each .+?))?(?:, or (?P<default>\S+) if there is"
    r" none)?\."
)


@lru_cache(maxsize=100_000)
def specification_of(text: str) -> Specification:
    """
    Read a specification from its sentence.

    Raises:
        ValueError: if the text is not a sentence of the grammar.
    """
    match = _SENTENCE.fullmatch(text)
    specification = None if match is None else _read(match)
    if specification is None or specification.text != text:
        raise ValueError(
            f"{text[:80]!r} is not a specification of the task `functions`. One is, for example, "
            "'Return the sum of the numbers of xs that are even.'"
        )
    return specification


def _read(match: re.Match) -> Specification | None:
    source = next((name for name, source in SOURCES.items() if source.phrase == match["source"]), None)
    if source is None:
        return None
    origin = SOURCES[source]
    conditions = match["conditions"].split(" and ") if match["conditions"] else []
    terms = [_find_term(CONDITIONS[origin.kind], phrase) for phrase in conditions]
    change = _find_term(CHANGES[origin.kind], match["change"]) if match["change"] else None
    guard = _find_term(GUARDS[origin.guards], match["guard"], origin.parameter) if match["guard"] else None
    kind = (CHANGES[origin.kind][change.name].kind if change else None) or origin.kind
    fold = next((name for name, fold in FOLDS[kind].items() if fold.phrase == match["fold"]), None)
    literals = [literal for literal in (match["value"], match["default"]) if literal is not None]
    if fold is None or None in terms or not set(literals) <= set(VALUES):
        return None
    return Specification(source, fold, tuple(terms), change, match["default"], guard, match["value"])


def _find_term(rules: Mapping[str, Rule], phrase: str, parameter: str = "") -> Term | None:
    for name, rule in rules.items():
        for constant in rule.constants or (None,):
            if _phrase(rule, Term(name, constant), parameter) == phrase:
                return Term(name, constant)
    return None
