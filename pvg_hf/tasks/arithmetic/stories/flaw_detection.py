"""Finds the flaws of a solution: in which line each is, and of which kind."""

import re
from collections.abc import Iterator

from pvg_hf.tasks.arithmetic.flaw import Flaw, FlawKind
from pvg_hf.tasks.arithmetic.stories.grammar import OPERATIONS, VERB_BY_WORD, Event, Story
from pvg_hf.tasks.arithmetic.stories.solutions import Step, conclusion_line, start_line
from pvg_hf.tasks.arithmetic.world import Reading

_STEP = re.compile(
    r"(?P<day>\w+) (?P<verb>\w+) (?P<amount>\d+): (?P<left>-?\d+) (?P<operator>[-+*/]) (?P<right>-?\d+) = (?P<result>-?\d+)"
)

_START = re.compile(r"has (\d+)")

_CONCLUSION = re.compile(r"#### (-?\d+)")

_MAX_DIGITS = 18


def check_solution(story: Story, solution: str) -> Reading:
    """
    Check a solution line by line.

    Each line is judged given the lines before it, so a value carried on correctly from an earlier mistake is not
    another flaw.
    """
    lines = solution.strip().split("\n")
    checked = enumerate(_check_lines(story, lines))
    flaws = [Flaw(index, kind) for index, (_, kind) in checked if kind is not None]
    if _CONCLUSION.fullmatch(lines[-1]) is None and (not flaws or flaws[-1].step != len(lines) - 1):
        flaws.append(Flaw(len(lines) - 1, FlawKind.MALFORMED))
    return Reading(tuple(flaws))


def expected_lines(story: Story, solution: str) -> list[str]:
    """
    Write what each line of a solution should be, given the lines before it.

    That is the step of the story's next event, from the value that the solution has reached, and the conclusion after the
    last event.
    """
    return [expected for expected, _ in _check_lines(story, solution.strip().split("\n"))]


def _check_lines(story: Story, lines: list[str]) -> Iterator[tuple[str, FlawKind | None]]:
    """Yield for each line what it should be, and its flaw, if any."""
    value: int | None = None  # the current count according to the solution
    used = 0  # number of the story's events that the steps so far have used or skipped
    for index, line in enumerate(lines):
        expected = _expected_line(story, index, used, value)
        kind: FlawKind | None
        step = _read_step(line)
        if index == 0:
            kind, value = _check_start(story, line)
        elif step is not None:
            kind, used = _check_step(step, story.events, used, value)
            value = step.result
        else:
            kind = _check_conclusion(
                line, value, is_complete=used == len(story.events), is_last=index == len(lines) - 1
            )
        yield expected, kind


def _expected_line(story: Story, index: int, used: int, value: int | None) -> str:
    if index == 0:
        return start_line(story.start)
    if value is None:  # nothing can be read of the solution so far
        value = story.values[used]
    return conclusion_line(value) if used == len(story.events) else str(Step.of(story.events[used], value))


def _read_step(line: str) -> Step | None:
    match = _STEP.fullmatch(line)
    if match is None or max(len(number) for number in re.findall(r"\d+", line)) > _MAX_DIGITS:
        return None
    numbers = {key: int(match[key]) for key in ("amount", "left", "right", "result")}
    return Step(day=match["day"], verb=match["verb"], operator=match["operator"], **numbers)


def _check_start(story: Story, line: str) -> tuple[FlawKind | None, int | None]:
    match = _START.fullmatch(line)
    if match is None or len(match[1]) > _MAX_DIGITS:
        return FlawKind.MALFORMED, None
    start = int(match[1])
    return (None if start == story.start else FlawKind.WRONG_OPERAND), start


def _check_step(step: Step, events: tuple[Event, ...], used: int, value: int | None) -> tuple[FlawKind | None, int]:
    """Return the step's flaw, if any, and the number of events used after it."""
    place, kind = _place_event(step, events, used)
    if kind is None and step.operator != VERB_BY_WORD[step.verb].operator:
        kind = FlawKind.WRONG_OPERATION
    if kind is None and (step.right != step.amount or (value is not None and step.left != value)):
        kind = FlawKind.WRONG_OPERAND
    if kind is None and not _equation_holds(step):
        kind = FlawKind.WRONG_SUM
    return kind, place


def _place_event(step: Step, events: tuple[Event, ...], used: int) -> tuple[int, FlawKind | None]:
    """Find the event that a step refers to: the next one, a later one (those between are dropped), or none."""
    place = next((index for index in range(used, len(events)) if events[index].day == step.day), None)
    if place is None:
        return used, FlawKind.INVENTED_STEP
    if place > used:
        return place + 1, FlawKind.DROPPED_STEP
    if step.verb != events[place].verb:
        return place + 1, FlawKind.WRONG_OPERATION
    return place + 1, FlawKind.WRONG_OPERAND if step.amount != events[place].amount else None


def _equation_holds(step: Step) -> bool:
    if step.operator == "/" and step.right == 0:
        return False
    return OPERATIONS[step.operator](step.left, step.right) == step.result


def _check_conclusion(line: str, value: int | None, *, is_complete: bool, is_last: bool) -> FlawKind | None:
    match = _CONCLUSION.fullmatch(line)
    if match is None or not is_last or len(match[1]) > _MAX_DIGITS:
        return FlawKind.MALFORMED
    if value is not None and int(match[1]) != value:
        return FlawKind.CONTRADICTED_CONCLUSION
    return None if is_complete else FlawKind.DROPPED_STEP
