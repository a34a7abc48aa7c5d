"""
Stories, of which proofs are written: one person's count changes from day to day. Samples stories, writes them and
their solutions, which are chains of steps, as text, and parses the text again.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np

from pvg_hf.tasks.arithmetic.grammar import MAX_AMOUNT, MAX_START, MIN_START, NAMES, OBJECTS, OPERATIONS, QUESTION

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")  # one event per day, from the first day on
MAX_VALUE = 30  # every true intermediate value is in [1, MAX_VALUE]
MIN_DIFFICULTY, MAX_DIFFICULTY = 2, len(DAYS)  # number of steps of a story


@dataclass(frozen=True)
class Verb:
    """
    A kind of event.

    Args:
        sentence: The story's sentence after `On DAY`, with the fields `{name}` (the person in the question),
            `{other}`, `{objects}` and `{amount}`.
        amount: The amount that the verb itself implies; `None` if the story states it.
    """

    word: str
    operator: str
    sentence: str
    amount: int | None = None


VERBS = (
    Verb("finds", "+", "{name} finds {amount} {objects}."),
    Verb("buys", "+", "{name} buys {amount} {objects}."),
    Verb("gets", "+", "{other} gives {name} {amount} {objects}."),
    Verb("loses", "-", "{name} loses {amount} {objects}."),
    Verb("sells", "-", "{name} sells {amount} {objects}."),
    Verb("gives", "-", "{name} gives {other} {amount} {objects}."),
    Verb("doubles", "*", "{name} doubles the {objects}.", amount=2),
    Verb("triples", "*", "{name} triples the {objects}.", amount=3),
    Verb("halves", "/", "{name} keeps half of the {objects}.", amount=2),
    Verb("thirds", "/", "{name} keeps a third of the {objects}.", amount=3),
)
VERB_BY_WORD = {verb.word: verb for verb in VERBS}
DISTRACTORS = (
    "{other} has {amount} {objects}.",
    "{other} buys {amount} {objects}.",
    "{other} loses {amount} {objects}.",
)


@dataclass(frozen=True)
class Event:
    """A change of the count: the day, a verb's word, and the amount (a number of objects, or the factor)."""

    day: str
    verb: str
    amount: int

    @property
    def operator(self) -> str:
        return VERB_BY_WORD[self.verb].operator

    def apply(self, value: int) -> int:
        """Return the count after the event."""
        return OPERATIONS[self.operator](value, self.amount)


@dataclass(frozen=True)
class Story:
    """
    The truth behind a problem text.

    Args:
        events: Changes of the count, in order; their number is the difficulty.
    """

    name: str
    objects: str
    start: int
    events: tuple[Event, ...]

    @property
    def values(self) -> list[int]:
        """The initial count and the count after each event."""
        values = [self.start]
        for event in self.events:
            values.append(event.apply(values[-1]))
        return values

    @property
    def answer(self) -> int:
        return self.values[-1]


def sample_story(rng: np.random.Generator, difficulty: int, distractor_rate: float) -> tuple[Story, str]:
    """
    Draw a story and its problem text.

    Args:
        difficulty: Number of events, in [2, 6].
        distractor_rate: Probability in [0, 1] of a sentence about somebody else's objects among the events.
    Returns: the story, and the text that [`parse_story`] parses to it.
    """
    name, other = (str(word) for word in rng.choice(NAMES, size=2, replace=False))
    objects = str(rng.choice(OBJECTS))
    story = Story(name, objects, int(rng.integers(MIN_START, MAX_START + 1)), ())
    for _ in range(difficulty):
        story = Story(name, objects, story.start, (*story.events, _sample_event(rng, story)))
    words = {"name": name, "other": other, "objects": objects}
    sentences = [f"{name} has {story.start} {objects}."]
    sentences += [_tell(event, words) for event in story.events]
    if rng.random() < distractor_rate:
        place = int(rng.integers(1, len(sentences) + 1))
        sentences.insert(place, str(rng.choice(DISTRACTORS)).format(amount=rng.integers(2, MAX_AMOUNT + 1), **words))
    sentences.append(QUESTION.format(**words))
    return story, " ".join(sentences)


def _tell(event: Event, words: Mapping[str, str | None]) -> str:
    return f"On {event.day} " + VERB_BY_WORD[event.verb].sentence.format(amount=event.amount, **words)


def _sample_event(rng: np.random.Generator, story: Story) -> Event:
    """Draw the next day's event such that the count stays within [1, MAX_VALUE]."""
    day, value = DAYS[len(story.events)], story.answer
    while True:
        verb = VERBS[rng.integers(len(VERBS))]
        event = Event(day, verb.word, verb.amount or int(rng.integers(2, MAX_AMOUNT + 1)))
        exact = event.operator != "/" or value % event.amount == 0
        if exact and 1 <= event.apply(value) <= MAX_VALUE:
            return event


def _pattern(sentence: str) -> re.Pattern[str]:
    fields = {"name": r"(?P<name>\w+)", "other": r"(?P<other>\w+)", "objects": r"\w+", "amount": r"(?P<amount>\d+)"}
    return re.compile(r"On (?P<day>\w+) " + sentence.replace(".", r"\.").format(**fields))


_START = re.compile(r"(?P<name>\w+) has (?P<amount>\d+) (?P<objects>\w+)\.")
_SENTENCES = tuple((verb, _pattern(verb.sentence)) for verb in VERBS)


def parse_story(problem: str) -> Story:
    """Recover the story from a problem text. Raises `ValueError` if the text does not follow this grammar."""
    first, *rest = re.findall(r"[^.?]+[.?]?", problem) or [""]
    start = _START.fullmatch(first.strip())
    if start is None:
        raise ValueError(f"Not an arithmetic problem: {problem[:80]!r} does not begin with `NAME has N THINGS.`.")
    name = start["name"]
    events = [event for sentence in rest if (event := _parse_event(sentence.strip(), name))]
    return Story(name, start["objects"], int(start["amount"]), tuple(events))


story_of = lru_cache(maxsize=4096)(parse_story)
"""Parses a problem text, cached (see [`parse_story`])."""


def _parse_event(sentence: str, name: str) -> Event | None:
    """Parse the event of a sentence; `None` for the question and for somebody else's objects."""
    for verb, pattern in _SENTENCES:
        match = pattern.fullmatch(sentence)
        if match and match["name"] == name:
            return Event(match["day"], verb.word, verb.amount or int(match["amount"]))
    return None


def story_mistake(problem: str, difficulties: tuple[int, int] = (MIN_DIFFICULTY, MAX_DIFFICULTY)) -> str | None:
    """Explain in a sentence why this grammar cannot produce a text; `None` if it can."""
    sentences = [part.strip() for part in re.findall(r"[^.?]+[.?]?", problem) if part.strip()]
    first, *middle, last = sentences if len(sentences) > 1 else [*sentences, "", ""]
    start = _START.fullmatch(first)
    if start is None or start["name"] not in NAMES or start["objects"] not in OBJECTS:
        return (
            f"It does not begin with `NAME has NUMBER THINGS.`, with a name such as {NAMES[0]} and things such as"
            f" {OBJECTS[0]}."
        )
    name, objects = start["name"], start["objects"]
    if last != QUESTION.format(name=name, objects=objects):
        return f"It does not end with `{QUESTION.format(name=name, objects=objects)}`."
    story, num_distractors = Story(name, objects, int(start["amount"]), ()), 0
    for sentence in middle:
        event = _strict_event(sentence, story)
        if event is not None:
            story = Story(name, objects, story.start, (*story.events, event))
        elif _is_distractor(sentence, story) and not num_distractors:
            num_distractors = 1
        else:
            return f"`{sentence}` is not the next sentence of such a story."
    if not difficulties[0] <= len(story.events) <= difficulties[1]:
        return f"It has {len(story.events)} event(s); a problem has {difficulties[0]} to {difficulties[1]}."
    if not (MIN_START <= story.start <= MAX_START and all(1 <= value <= MAX_VALUE for value in story.values)):
        return (
            f"Its counts are {story.values}; they begin with {MIN_START} to {MAX_START} and stay within 1 and"
            f" {MAX_VALUE}."
        )
    return None


def _strict_event(sentence: str, story: Story) -> Event | None:
    """Parse the next day's event from a sentence; `None` unless the wording and the amounts are the grammar's."""
    if len(story.events) == len(DAYS):
        return None
    day, value = DAYS[len(story.events)], story.answer
    for verb, pattern in _SENTENCES:
        match = pattern.fullmatch(sentence)
        if match is None or match["name"] != story.name:
            continue
        event = Event(day, verb.word, verb.amount or int(match["amount"]))
        words = {"name": story.name, "objects": story.objects, "other": match.groupdict().get("other")}
        is_known = words["other"] in (None, *NAMES) and 2 <= event.amount <= MAX_AMOUNT
        exact = event.operator != "/" or value % event.amount == 0
        return event if is_known and exact and _tell(event, words) == sentence else None
    return None


def _is_distractor(sentence: str, story: Story) -> bool:
    others = [name for name in NAMES if name != story.name and sentence.startswith(f"{name} ")]
    possible = product(DISTRACTORS, others, range(2, MAX_AMOUNT + 1))
    return any(sentence == text.format(other=one, amount=n, objects=story.objects) for text, one, n in possible)


@dataclass(frozen=True)
class Step:
    """
    One line of a solution, such as `Monday finds 5: 12 + 5 = 17`, as written (it may be wrong).

    Args:
        day, verb, amount: The event that the step claims to use.
    """

    day: str
    verb: str
    amount: int
    left: int
    operator: str
    right: int
    result: int

    @classmethod
    def of(cls, event: Event, value: int) -> "Step":
        """Return the valid step for `event` at the current count `value`."""
        return cls(event.day, event.verb, event.amount, value, event.operator, event.amount, event.apply(value))

    def __str__(self) -> str:
        return f"{self.day} {self.verb} {self.amount}: {self.left} {self.operator} {self.right} = {self.result}"


def write_solution(start: int, steps: list[Step], conclusion: int) -> str:
    """Format a solution as text."""
    return "\n".join([start_line(start), *map(str, steps), conclusion_line(conclusion)])


def start_line(start: int) -> str:
    """Write a solution's first line."""
    return f"has {start}"


def conclusion_line(conclusion: int) -> str:
    """Write a solution's last line."""
    return f"#### {conclusion}"


def reference_solution(story: Story) -> str:
    """Write the flawless solution."""
    steps = [Step.of(event, value) for event, value in zip(story.events, story.values, strict=False)]
    return write_solution(story.start, steps, story.answer)
