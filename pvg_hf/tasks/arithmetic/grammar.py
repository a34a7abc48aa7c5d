"""The grammar of problems: samples puzzles, writes them as text and parses the text again."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache

import numpy as np

NAMES = ("Ana", "Ben", "Cleo", "Dev", "Eli", "Fay", "Gus", "Hana", "Ivan", "June", "Kofi", "Lena")
OBJECTS = ("apples", "beads", "books", "cards", "coins", "marbles", "pens", "plums", "shells", "stamps")
MAX_VALUE = 40  # every true number of things is in [1, MAX_VALUE]
MAX_NUMBER = 60  # every number in a written solution, flawed or not, is in [0, MAX_NUMBER]
MIN_DIFFICULTY, MAX_DIFFICULTY = 2, 6  # number of calculations that the answer needs
MIN_START, MAX_START, MAX_AMOUNT = 3, 15, 9  # given numbers, and the largest amount that a comparison states
TWO_BRANCHES_RATE = 0.5  # share of the puzzles of at least three calculations whose answer joins two given numbers

OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: left // right if right else 0,  # exact in every puzzle; rounded down after a mistake
}


class Relation(StrEnum):
    """Form in which a clue gives somebody's number."""

    GIVEN = "given"
    MORE = "more"
    FEWER = "fewer"
    TIMES = "times"
    SHARE = "share"
    TOGETHER = "together"

    @property
    def operator(self) -> str:
        """The operation on the source's number and the amount, or on both sources' numbers."""
        return _OPERATORS[self]


_OPERATORS = {
    Relation.MORE: "+",
    Relation.FEWER: "-",
    Relation.TIMES: "*",
    Relation.SHARE: "/",
    Relation.TOGETHER: "+",
}

WORDINGS: tuple[tuple[Relation, int | None, str], ...] = (
    (Relation.MORE, None, "{amount} more than {source}"),
    (Relation.FEWER, None, "{amount} fewer than {source}"),
    (Relation.TIMES, 2, "twice as many as {source}"),
    (Relation.TIMES, 3, "three times as many as {source}"),
    (Relation.SHARE, 2, "half as many as {source}"),
    (Relation.SHARE, 3, "a third as many as {source}"),
    (Relation.TOGETHER, None, "as many as {source} and {other} together"),
)
"""Relation, the amount that the words imply (if any), and the words, which are the same in a problem and in a
solution."""

QUESTION = "How many {objects} does {name} have?"


@dataclass(frozen=True)
class Clue:
    """
    What a problem says of one person.

    Args:
        amount: The number of things (`given`, `more`, `fewer`) or the factor (`times`, `share`); `None` for
            `together`.
        sources: The people whose numbers it uses: none (`given`), two (`together`) or one.
    """

    owner: str
    relation: Relation
    amount: int | None
    sources: tuple[str, ...] = ()

    def apply(self, values: Mapping[str, int]) -> int:
        """Calculate the owner's number from the sources' numbers."""
        numbers = [values[source] for source in self.sources]
        if self.amount is not None:
            numbers.append(self.amount)
        return numbers[0] if len(numbers) == 1 else OPERATIONS[self.relation.operator](*numbers)

    @property
    def phrase(self) -> str:
        """The comparison in words, such as `3 more than Ana`."""
        words = next(row[2] for row in WORDINGS if row[0] is self.relation and row[1] in (None, self.amount))
        source, other = (*self.sources, "")[:2]
        return words.format(amount=self.amount, source=source, other=other)

    def sentence(self, objects: str) -> str:
        """Write the problem's sentence."""
        said = f"{self.amount} {objects}" if self.relation is Relation.GIVEN else self.phrase
        return f"{self.owner} has {said}."


@dataclass(frozen=True)
class Puzzle:
    """
    The truth behind a problem text.

    Args:
        clues: One per person, in the text's order, in which each follows those that it compares with.
    """

    objects: str
    clues: tuple[Clue, ...]
    asked: str

    @cached_property
    def by_owner(self) -> dict[str, Clue]:
        return {clue.owner: clue for clue in self.clues}

    @cached_property
    def values(self) -> dict[str, int]:
        """Everybody's number."""
        values: dict[str, int] = {}

        def calculate(owner: str) -> None:
            if owner not in values:
                clue = self.by_owner[owner]
                for source in clue.sources:
                    calculate(source)
                values[owner] = clue.apply(values)

        for owner in self.by_owner:
            calculate(owner)
        return values

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """The people whose numbers the answer depends on, each after its sources; the asked person is the last."""
        found: dict[str, None] = {}

        def visit(owner: str) -> None:
            for source in self.by_owner[owner].sources:
                visit(source)
            found.setdefault(owner)

        visit(self.asked)
        return tuple(found)

    @cached_property
    def calculated(self) -> tuple[str, ...]:
        """The people of `needed` whose number is not given; their number is the difficulty."""
        return tuple(owner for owner in self.needed if self.by_owner[owner].sources)

    @property
    def answer(self) -> int:
        return self.values[self.asked]

    @property
    def text(self) -> str:
        """The problem text, a line for each sentence, which [`parse_puzzle`] parses to this puzzle."""
        sentences = [clue.sentence(self.objects) for clue in self.clues]
        return "\n".join([*sentences, QUESTION.format(objects=self.objects, name=self.asked)])


def sample_puzzle(rng: np.random.Generator, difficulty: int, distractor_rate: float) -> Puzzle:
    """
    Draw a puzzle.

    Args:
        difficulty: Number of calculations that the answer needs, in [2, 6].
        distractor_rate: Probability in [0, 1] of a further person whom the answer does not need.
    """
    while True:  # a draw is given up when no comparison keeps the numbers in range, which is rare
        clues = _sample_clues(rng, difficulty)
        if clues is None:
            continue
        asked = clues[-1].owner
        if rng.random() < distractor_rate:
            clues.append(_sample_distractor(rng, clues))
        objects = str(rng.choice(OBJECTS))
        puzzle = Puzzle(objects, tuple(_shuffled(rng, clues)), asked)
        if len(puzzle.calculated) == difficulty and all(1 <= value <= MAX_VALUE for value in puzzle.values.values()):
            return puzzle


def _sample_clues(rng: np.random.Generator, difficulty: int) -> list[Clue] | None:
    """Draw the clues that the answer needs, in the order of calculation; `None` if the numbers leave the range."""
    names = iter(str(name) for name in rng.permutation(NAMES))
    lengths = [difficulty]  # comparisons in a chain on each given number, then on what joins them
    if difficulty > 2 and rng.random() < TWO_BRANCHES_RATE:
        first = int(rng.integers(0, difficulty))
        second = int(rng.integers(0, difficulty - first))
        lengths = [first, second, difficulty - 1 - first - second]
    clues: list[Clue] = []
    values: dict[str, int] = {}
    ends: list[str] = []
    for index, length in enumerate(lengths):
        owner = next(names)
        if index == 2:
            clues.append(Clue(owner, Relation.TOGETHER, None, (ends[0], ends[1])))
        else:
            clues.append(Clue(owner, Relation.GIVEN, int(rng.integers(MIN_START, MAX_START + 1))))
        values[owner] = clues[-1].apply(values)
        for _ in range(length):
            if not 1 <= values[owner] <= MAX_VALUE:
                return None
            clue = _sample_comparison(rng, next(names), owner, values[owner])
            values[clue.owner] = clue.apply(values)
            clues.append(clue)
            owner = clue.owner
        ends.append(owner)
    return clues


def _sample_comparison(rng: np.random.Generator, owner: str, source: str, value: int) -> Clue:
    """Draw a comparison with `source`, whose number is `value`, that keeps the owner's number within range."""
    while True:  # adding or subtracting a small amount is always possible
        relation, amount, _ = WORDINGS[rng.integers(len(WORDINGS) - 1)]
        number = amount or int(rng.integers(2, MAX_AMOUNT + 1))
        clue = Clue(owner, relation, number, (source,))
        if relation is Relation.SHARE and value % number:
            continue
        if 1 <= clue.apply({source: value}) <= MAX_VALUE:
            return clue


def _sample_distractor(rng: np.random.Generator, clues: list[Clue]) -> Clue:
    """Draw a clue about a further person: a given number, or a comparison with somebody."""
    used = {clue.owner for clue in clues}
    free = [name for name in NAMES if name not in used]
    owner = free[rng.integers(len(free))]
    if rng.random() < 0.5:
        return Clue(owner, Relation.GIVEN, int(rng.integers(MIN_START, MAX_START + 1)))
    values = Puzzle("", tuple(clues), clues[-1].owner).values
    source = clues[rng.integers(len(clues))].owner
    return _sample_comparison(rng, owner, source, min(max(values[source], 1), MAX_VALUE))


def _shuffled(rng: np.random.Generator, clues: list[Clue]) -> Iterator[Clue]:
    """Yield the clues in a random order in which each comes after those that it compares with."""
    waiting = list(clues)
    written: set[str] = set()
    while waiting:
        ready = [clue for clue in waiting if written.issuperset(clue.sources)]
        clue = ready[rng.integers(len(ready))]
        yield clue
        written.add(clue.owner)
        waiting.remove(clue)


_FIELDS = {"amount": r"(?P<amount>\d+)", "source": r"(?P<source>\w+)", "other": r"(?P<other>\w+)"}
_COMPARISONS = tuple((relation, amount, re.compile(words.format(**_FIELDS))) for relation, amount, words in WORDINGS)
_SENTENCE = re.compile(r"(?P<owner>\w+) has (?P<said>.+)")
_GIVEN = re.compile(r"(?P<amount>\d+) (?P<objects>\w+)")
_ASKED = re.compile(r"How many (?P<objects>\w+) does (?P<name>\w+) have\?")
MAX_DIGITS = 18  # of a number in a text


def parse_puzzle(problem: str) -> Puzzle:
    """Recover the puzzle from a problem text. Raises `ValueError` if the text does not follow this grammar."""
    *sentences, question = [part.strip() for part in re.findall(r"[^.?]+[.?]?", problem) if part.strip()] or [""]
    asked = _ASKED.fullmatch(question)
    if asked is None:
        raise ValueError(
            f"Not an arithmetic problem: {problem[:80]!r} does not end with `How many THINGS does NAME have?`."
        )
    clues = [_parse_sentence(sentence, asked["objects"]) for sentence in sentences]
    puzzle = Puzzle(asked["objects"], tuple(clues), asked["name"])
    _check_references(puzzle)
    return puzzle


puzzle_of = lru_cache(maxsize=4096)(parse_puzzle)
"""Parses a problem text, cached (see [`parse_puzzle`])."""


def _parse_sentence(sentence: str, objects: str) -> Clue:
    if match := _SENTENCE.fullmatch(sentence.removesuffix(".")):
        if clue := read_comparison(match["owner"], match["said"]):
            return clue
        given = _GIVEN.fullmatch(match["said"])
        if given and given["objects"] == objects and len(given["amount"]) <= MAX_DIGITS:
            return Clue(match["owner"], Relation.GIVEN, int(given["amount"]))
    raise ValueError(f"Not an arithmetic problem: `{sentence[:80]}` is no sentence of its grammar.")


def read_comparison(owner: str, phrase: str) -> Clue | None:
    """Parse a comparison in words, such as `3 more than Ana`; `None` for any other words."""
    for relation, amount, pattern in _COMPARISONS:
        if match := pattern.fullmatch(phrase):
            fields = match.groupdict()
            stated = fields.get("amount")
            if stated and len(stated) > MAX_DIGITS:
                return None
            sources = tuple(fields[key] for key in ("source", "other") if fields.get(key))
            return Clue(owner, relation, amount or (int(stated) if stated else None), sources)
    return None


def _check_references(puzzle: Puzzle) -> None:
    """Refuse a puzzle with a person who has no clue or several, or whose number depends on itself."""
    owners = [clue.owner for clue in puzzle.clues]
    for name in (puzzle.asked, *owners, *(source for clue in puzzle.clues for source in clue.sources)):
        if owners.count(name) != 1:
            raise ValueError(
                f"Not an arithmetic problem: {owners.count(name)} sentences, not one, say how many {name} has."
            )
    done: set[str] = set()
    while len(done) < len(owners):
        ready = {s.owner for s in puzzle.clues if s.owner not in done and done.issuperset(s.sources)}
        if not ready:
            raise ValueError("Not an arithmetic problem: somebody's number depends on itself.")
        done |= ready


def puzzle_mistake(problem: str, difficulties: tuple[int, int] = (MIN_DIFFICULTY, MAX_DIFFICULTY)) -> str | None:
    """Explain in a sentence why this grammar cannot produce a text; `None` if it can."""
    try:
        puzzle = parse_puzzle(problem)
    except ValueError as err:
        return f"{err}"
    return next(_mistakes(puzzle, problem, difficulties), None)


def _mistakes(puzzle: Puzzle, problem: str, difficulties: tuple[int, int]) -> Iterator[str]:
    unknown = [name for name in puzzle.by_owner if name not in NAMES]
    if unknown:
        yield f"`{unknown[0]}` is none of its names: {', '.join(NAMES)}."
    if puzzle.objects not in OBJECTS:
        yield f"`{puzzle.objects}` are none of its things: {', '.join(OBJECTS)}."
    if puzzle.text != problem:
        yield "Its sentences are not written as the grammar writes them, one a line."
    written: set[str] = set()
    for clue in puzzle.clues:
        if not written.issuperset(clue.sources):
            yield f"It compares {clue.owner} with somebody whom a later sentence introduces."
        written.add(clue.owner)
    number = len(puzzle.calculated)
    if not difficulties[0] <= number <= difficulties[1]:
        yield f"Its answer needs {number} calculation(s); a problem needs {difficulties[0]} to {difficulties[1]}."
    for clue in puzzle.clues:
        if clue.relation is Relation.GIVEN and not MIN_START <= (clue.amount or 0) <= MAX_START:
            yield f"A given number is in [{MIN_START}, {MAX_START}]; {clue.owner} has {clue.amount}."
        if clue.relation in (Relation.MORE, Relation.FEWER) and not 2 <= (clue.amount or 0) <= MAX_AMOUNT:
            yield f"A difference is in [2, {MAX_AMOUNT}]; {clue.owner}'s is {clue.amount}."
        if clue.relation is Relation.SHARE and puzzle.values[clue.sources[0]] % (clue.amount or 1):
            yield f"{clue.owner}'s share is no whole number."
    if not all(1 <= value <= MAX_VALUE for value in puzzle.values.values()):
        yield f"Its numbers are {puzzle.values}; they stay within 1 and {MAX_VALUE}."
    if len(puzzle.clues) > len(puzzle.needed) + 1:
        yield "It has more than one person whom the answer does not need."
