"""Programs for specifications: honest ones in several styles, and ones with a flaw."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pvg_hf.experimental.programs.functions.specification import (
    CHANGES,
    CONDITIONS,
    FOLDS,
    FUNCTION,
    GUARDS,
    LITERALS,
    Specification,
    Term,
    sample_term,
)

STYLES = ("loop", "skip", "steps", "expression")
"""Styles of honest programs: a loop, a loop that skips elements, a list and its fold, one expression."""


@dataclass(frozen=True)
class Deviation:
    """
    How a program differs from its specification, beyond what another specification could say.

    Args:
        iterable: Expression of the elements, in place of the source's.
        start: Initial value of a sum, product or count.
        joiner: Operator between two conditions.
    """

    iterable: str | None = None
    start: str | None = None
    joiner: str = "and"


def write_program(specification: Specification, style: str = "loop", deviation: Deviation | None = None) -> str:
    """
    Write a program for a specification.

    Args:
        specification ([`Specification`]): What the program computes.
        style (`str`, defaults to `"loop"`): One of `STYLES`. Two styles give the same text where they do not differ.
        deviation ([`Deviation`], *optional*): A flaw; none for an honest program.
    """
    deviation = deviation or Deviation()
    origin = specification.origin
    lines = [f"def {FUNCTION}({origin.parameter}):"]
    if specification.guard is not None:
        rule = GUARDS[origin.guards][specification.guard.name]
        test = rule.code.format(x=origin.parameter, k=specification.guard.constant)
        lines += [f"    if {test}:", f"        return {specification.guarded_value}"]
    parts = _Parts.of(specification, deviation)
    writer = {"loop": _loop, "skip": _skipping_loop, "steps": _steps, "expression": _expression}[style]
    return "\n".join([*lines, *(f"    {line}" for line in writer(specification, parts))])


def honest_programs(specification: Specification) -> list[str]:
    """Return the different honest programs for a specification, one or more per style, in a fixed order."""
    return list(dict.fromkeys(write_program(specification, style) for style in STYLES))


@dataclass(frozen=True)
class _Parts:
    """Pieces of code of a program: element, iterable, condition (if any), changed element, initial value, default."""

    item: str
    iterable: str
    condition: str | None
    value: str
    start: str | None
    default: str

    @classmethod
    def of(cls, specification: Specification, deviation: Deviation) -> "_Parts":
        origin = specification.origin
        tests = [
            CONDITIONS[origin.kind][term.name].code.format(x=origin.item, k=term.constant)
            for term in specification.conditions
        ]
        change = specification.change
        value = (
            origin.item
            if change is None
            else CHANGES[origin.kind][change.name].code.format(x=origin.item, k=change.constant)
        )
        return cls(
            origin.item,
            deviation.iterable or origin.iterable,
            f" {deviation.joiner} ".join(tests) or None,
            value,
            deviation.start,
            specification.default or "0",
        )

    @property
    def comprehension(self) -> str:
        """The elements, as the inside of a comprehension."""
        condition = "" if self.condition is None else f" if {self.condition}"
        return f"{self.value} for {self.item} in {self.iterable}{condition}"


# Of each fold with a loop: the lines before it, those in its body, and those after it, with {v} for the changed
# element and {d} for the default.
_LOOPS: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "sum": (("total = {start}",), ("total += {v}",), ("return total",)),
    "count": (("count = {start}",), ("count += 1",), ("return count",)),
    "product": (("total = {start}",), ("total *= {v}",), ("return total",)),
    "largest": (
        ("best = None",),
        ("if best is None or {v} > best:", "    best = {v}"),
        ("return {d} if best is None else best",),
    ),
    "smallest": (
        ("best = None",),
        ("if best is None or {v} < best:", "    best = {v}"),
        ("return {d} if best is None else best",),
    ),
    "first": ((), ("return {v}",), ("return {d}",)),
    "last": (("last = {d}",), ("last = {v}",), ("return last",)),
    "list": (("out = []",), ("out.append({v})",), ("return out",)),
    "reversed": (("out = []",), ("out.insert(0, {v})",), ("return out",)),
    "sorted": (("out = []",), ("out.append({v})",), ("out.sort()", "return out")),
    "running": (("out = []", "total = {start}"), ("total += {v}", "out.append(total)"), ("return out",)),
    "string": (("out = ''",), ("out += {v}",), ("return out",)),
    "backwards": (("out = ''",), ("out = {v} + out",), ("return out",)),
    "joined": (("out = []",), ("out.append({v})",), ("return '-'.join(out)",)),
}

_STARTS = {"sum": "0", "count": "0", "product": "1", "running": "0"}

# Of each fold: the lines that return it for the list ys.
_ENDINGS: dict[str, tuple[str, ...]] = {
    "sum": ("return sum(ys)",),
    "count": ("return len(ys)",),
    "product": ("total = {start}", "for y in ys:", "    total *= y", "return total"),
    "largest": ("return max(ys, default={d})",),
    "smallest": ("return min(ys, default={d})",),
    "first": ("return ys[0] if ys else {d}",),
    "last": ("return ys[-1] if ys else {d}",),
    "list": ("return ys",),
    "reversed": ("return ys[::-1]",),
    "sorted": ("return sorted(ys)",),
    "running": ("return [sum(ys[:i + 1]) for i in range(len(ys))]",),
    "string": ("return ''.join(ys)",),
    "backwards": ("return ''.join(ys)[::-1]",),
    "joined": ("return '-'.join(ys)",),
}

# Of each fold that one expression can say: the expression, with {c} for the inside of the comprehension.
_EXPRESSIONS = {
    "sum": "sum({c})",
    "count": "len([{c}])",
    "largest": "max(({c}), default={d})",
    "smallest": "min(({c}), default={d})",
    "first": "next(({c}), {d})",
    "list": "[{c}]",
    "reversed": "[{c}][::-1]",
    "sorted": "sorted({c})",
    "string": "''.join({c})",
    "backwards": "''.join({c})[::-1]",
    "joined": "'-'.join({c})",
}


def _loop(specification: Specification, parts: _Parts) -> list[str]:
    before, body, after = _filled_loop(specification, parts)
    if parts.condition is not None:
        body = [f"if {parts.condition}:", *(f"    {line}" for line in body)]
    return [*before, f"for {parts.item} in {parts.iterable}:", *(f"    {line}" for line in body), *after]


def _skipping_loop(specification: Specification, parts: _Parts) -> list[str]:
    if parts.condition is None:
        return _loop(specification, parts)
    before, body, after = _filled_loop(specification, parts)
    body = [f"if not ({parts.condition}):", "    continue", *body]
    return [*before, f"for {parts.item} in {parts.iterable}:", *(f"    {line}" for line in body), *after]


def _filled_loop(specification: Specification, parts: _Parts) -> tuple[list[str], list[str], list[str]]:
    start = parts.start or _STARTS.get(specification.fold, "0")
    before, body, after = (
        [line.format(v=parts.value, d=parts.default, start=start) for line in lines]
        for lines in _LOOPS[specification.fold]
    )
    return before, body, after


def _steps(specification: Specification, parts: _Parts) -> list[str]:
    start = parts.start or _STARTS.get(specification.fold, "0")
    ending = [line.format(d=parts.default, start=start) for line in _ENDINGS[specification.fold]]
    return [f"ys = [{parts.comprehension}]", *ending]


def _expression(specification: Specification, parts: _Parts) -> list[str]:
    if specification.fold not in _EXPRESSIONS:
        return _steps(specification, parts)
    return [f"return {_EXPRESSIONS[specification.fold].format(c=parts.comprehension, d=parts.default)}"]


Flawed = tuple[Specification, Deviation]


def draw_near_misses(rng: np.random.Generator, specification: Specification, style: str) -> dict[str, str]:
    """Draw a program with one flaw of each kind (`FLAW_KINDS`) that the specification has a place for, by kind."""
    drawn = {kind: draw(rng, specification) for kind, draw in FLAW_KINDS.items()}
    honest = write_program(specification, style)
    programs = {kind: write_program(flaw[0], style, flaw[1]) for kind, flaw in drawn.items() if flaw is not None}
    return {kind: program for kind, program in programs.items() if program != honest}


_OPPOSITES = {
    "even": "odd",
    "odd": "even",
    "positive": "negative",
    "negative": "positive",
    "above": "at_least",
    "at_least": "above",
    "below": "at_most",
    "at_most": "below",
    "multiple": "different",
    "different": "multiple",
    "vowel": "lower",
    "digit": "upper",
    "upper": "lower",
    "lower": "upper",
    "equal": "different",
    "longer": "shorter",
    "shorter": "longer",
    "starts": "contains",
    "ends": "starts",
    "contains": "starts",
    "more": "fewer",
    "fewer": "more",
    "doubled": "squared",
    "squared": "doubled",
    "times": "plus",
    "plus": "minus",
    "minus": "plus",
}

_NEAR_FOLDS = {
    "sum": "count",
    "count": "sum",
    "product": "sum",
    "largest": "smallest",
    "smallest": "largest",
    "first": "last",
    "last": "first",
    "list": "reversed",
    "reversed": "list",
    "sorted": "list",
    "running": "list",
    "string": "backwards",
    "backwards": "string",
    "joined": "list",
}


def _another_condition(rng: np.random.Generator, specification: Specification) -> Flawed | None:
    """Replace a condition: by one that is easily confused with it, or by one with another constant."""
    if not specification.conditions:
        return None
    place = int(rng.integers(len(specification.conditions)))
    rules = CONDITIONS[specification.origin.kind]
    changed = _nearby_term(rng, specification.conditions[place], rules)
    conditions = tuple(changed if i == place else term for i, term in enumerate(specification.conditions))
    return replace(specification, conditions=conditions), Deviation()


def _dropped_condition(rng: np.random.Generator, specification: Specification) -> Flawed | None:
    if not specification.conditions:
        return None
    place = int(rng.integers(len(specification.conditions)))
    conditions = tuple(term for i, term in enumerate(specification.conditions) if i != place)
    return replace(specification, conditions=conditions), Deviation()


def _either_condition(rng: np.random.Generator, specification: Specification) -> Flawed | None:
    """Join two conditions by `or`."""
    return (specification, Deviation(joiner="or")) if len(specification.conditions) == 2 else None


def _another_change(rng: np.random.Generator, specification: Specification) -> Flawed | None:
    if specification.change is None:
        return None
    changed = _nearby_term(rng, specification.change, CHANGES[specification.origin.kind])
    flawed = replace(specification, change=changed)
    return (flawed, Deviation()) if flawed.kind == specification.kind else None


def _another_fold(rng: np.random.Generator, specification: Specification) -> Flawed | None:
    fold = _NEAR_FOLDS[specification.fold]
    if fold not in FOLDS[specification.kind]:
        return None
    defaults = FOLDS[specification.kind][fold].defaults
    return replace(specification, fold=fold, default=specification.default or (defaults or (None,))[0]), Deviation()


def _another_default(rng: np.random.Generator, specification: Specification) -> Flawed | None:
    if specification.default is None:
        return None
    return replace(specification, default=_other(rng, LITERALS, specification, specification.default)), Deviation()


def _another_guard(rng: np.random.Generator, specification: Specification) -> Flawed | None:
    """Change the guard's condition or value, or drop it."""
    if specification.guard is None:
        return None
    if rng.random() < 0.3:
        return replace(specification, guard=None, guarded_value=None), Deviation()
    if rng.random() < 0.3:
        value = _other(rng, LITERALS, specification, specification.guarded_value)
        return replace(specification, guarded_value=value), Deviation()
    rules = GUARDS[specification.origin.guards]
    return replace(specification, guard=_nearby_term(rng, specification.guard, rules)), Deviation()


def _incomplete_iterable(rng: np.random.Generator, specification: Specification) -> Flawed | None:
    partial = specification.origin.partial
    return specification, Deviation(iterable=partial[int(rng.integers(len(partial)))])


def _wrong_start(rng: np.random.Generator, specification: Specification) -> Flawed | None:
    start = _STARTS.get(specification.fold)
    return None if start is None else (specification, Deviation(start={"0": "1", "1": "0"}[start]))


FLAW_KINDS: dict[str, Callable[[np.random.Generator, Specification], Flawed | None]] = {
    "condition": _another_condition,
    "dropped_condition": _dropped_condition,
    "either_condition": _either_condition,
    "change": _another_change,
    "fold": _another_fold,
    "default": _another_default,
    "guard": _another_guard,
    "elements": _incomplete_iterable,
    "start": _wrong_start,
}
"""Kinds of flaws, each with a function that draws one; `None` if a specification has no place for it."""


def _nearby_term(rng: np.random.Generator, term: Term, rules: dict) -> Term:
    """Draw a term that is easily confused with another one."""
    constants = rules[term.name].constants
    if constants and rng.random() < 0.5:
        place = constants.index(term.constant)
        near = [constants[i] for i in (place - 1, place + 1) if 0 <= i < len(constants)]
        return Term(term.name, near[int(rng.integers(len(near)))])
    opposite = _OPPOSITES.get(term.name)
    if opposite in rules:
        allowed = rules[opposite].constants
        if term.constant in allowed:
            return Term(opposite, term.constant)
        if not allowed:
            return Term(opposite)
    return sample_term(rng, {name: rule for name, rule in rules.items() if name != term.name})


def _other(rng: np.random.Generator, literals: dict, specification: Specification, literal: str | None) -> str:
    """Draw a literal of the result's kind that differs from `literal`, if there is one."""
    kind = FOLDS[specification.kind][specification.fold].result
    others = [other for other in literals[kind] if other != literal] or [literal]
    return others[int(rng.integers(len(others)))]
