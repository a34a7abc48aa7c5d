"""
Checks proofs: the flaws of a solution line by line, and the issues of a proof, which are fatal flaws and minor
omissions.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from pvg_hf.tasks.arithmetic.flaw import Flaw, FlawKind, Reading
from pvg_hf.tasks.arithmetic.grammar import MAX_DIGITS, OPERATIONS
from pvg_hf.tasks.proofs.stories import VERB_BY_WORD, Event, Step, Story, conclusion_line, start_line

CONCLUSION_MARK = "####"

_STEP = re.compile(
    r"(?P<day>\w+) (?P<verb>\w+) (?P<amount>\d+): (?P<left>-?\d+) (?P<operator>[-+*/]) (?P<right>-?\d+) ="
    r" (?P<result>-?\d+)"
)
_START = re.compile(r"has (\d+)")
_CONCLUSION = re.compile(r"#### (-?\d+)")
_BARE_CLAIM = re.compile(r"(?P<head>\w+ (?P<verb>\w+) (?P<amount>\d+)): = (?P<result>-?\d+)")
_CLAIM = re.compile(r"(?:has|= ) ?(?P<value>-?\d+)")


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


def _check_lines(story: Story, lines: list[str]) -> Iterator[tuple[str, FlawKind | None]]:
    """
    Yield for each line what it should be, given the lines before it, and its flaw, if any.

    It should be the step of the story's next event, from the value that the solution has reached, and the conclusion
    after the last event.
    """
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
            is_complete, is_last = used == len(story.events), index == len(lines) - 1
            kind = _check_conclusion(line, value, is_complete=is_complete, is_last=is_last)
        yield expected, kind


def _expected_line(story: Story, index: int, used: int, value: int | None) -> str:
    if index == 0:
        return start_line(story.start)
    if value is None:  # nothing can be read of the solution so far
        value = story.values[used]
    return conclusion_line(value) if used == len(story.events) else str(Step.of(story.events[used], value))


def _read_step(line: str) -> Step | None:
    match = _STEP.fullmatch(line)
    if match is None or max(len(number) for number in re.findall(r"\d+", line)) > MAX_DIGITS:
        return None
    numbers = {key: int(match[key]) for key in ("amount", "left", "right", "result")}
    return Step(day=match["day"], verb=match["verb"], operator=match["operator"], **numbers)


def _check_start(story: Story, line: str) -> tuple[FlawKind | None, int | None]:
    match = _START.fullmatch(line)
    if match is None or len(match[1]) > MAX_DIGITS:
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
    # A division by zero has no result.
    is_division_by_zero = step.operator == "/" and step.right == 0
    if kind is None and (is_division_by_zero or OPERATIONS[step.operator](step.left, step.right) != step.result):
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


def _check_conclusion(line: str, value: int | None, *, is_complete: bool, is_last: bool) -> FlawKind | None:
    match = _CONCLUSION.fullmatch(line)
    if match is None or not is_last or len(match[1]) > MAX_DIGITS:
        return FlawKind.MALFORMED
    if value is not None and int(match[1]) != value:
        return FlawKind.CONTRADICTED_CONCLUSION
    return None if is_complete else FlawKind.DROPPED_STEP


class OmissionKind(StrEnum):
    """An omission that lowers a proof's score without making it wrong."""

    BARE_CLAIM = "bare_claim"  # a step that states its result without the calculation
    MISSING_CONCLUSION = "missing_conclusion"  # no final answer follows the last step


IssueKind = FlawKind | OmissionKind


@dataclass(frozen=True)
class Issue:
    """
    An issue of a proof.

    Args:
        line (`int`):
            Line of the issue, from 0; a missing conclusion is one line after the last.
        quote (`str`):
            The text of the line; `####` for a missing conclusion.
    """

    line: int
    quote: str
    kind: IssueKind

    @property
    def is_fatal(self) -> bool:
        return isinstance(self.kind, FlawKind)


@dataclass(frozen=True)
class CheckedLine:
    """
    A line of a proof with what it should be.

    Args:
        expected: What the line should be, given the lines before it.
        quote: The text of the line; `####` for a missing conclusion.
        kind: The kind of issue; `None` if the line is fine.
    """

    expected: str
    quote: str
    kind: IssueKind | None


def check_lines(story: Story, proof: str) -> list[CheckedLine]:
    """
    Check each line of `proof`, and a missing conclusion.

    What the proof omits is filled in from its claims, and the result is checked like any solution. A bare claim that
    is wrong is therefore a flaw.
    """
    lines = proof.strip().split("\n")
    completed, omissions = _fill_in_omissions(lines)
    solution = "\n".join(completed)
    kinds = omissions | {flaw.step: flaw.kind for flaw in check_solution(story, solution).flaws}
    quotes = [*lines, CONCLUSION_MARK][: len(completed)]
    expected = [text for text, _ in _check_lines(story, solution.strip().split("\n"))]
    return [
        CheckedLine(text, quote, kinds.get(index))
        for index, (text, quote) in enumerate(zip(expected, quotes, strict=True))
    ]


def find_issues(story: Story, proof: str) -> list[Issue]:
    """Find the issues of `proof`, at most one per line, in order."""
    checked = enumerate(check_lines(story, proof))
    return [Issue(index, line.quote, line.kind) for index, line in checked if line.kind is not None]


def grade_proof(issues: Iterable[Issue]) -> float:
    """Score a proof: 1 without an issue, 0.5 with only minor omissions, 0 with a fatal flaw."""
    return min((0.0 if issue.is_fatal else 0.5 for issue in issues), default=1.0)


def _fill_in_omissions(lines: list[str]) -> tuple[list[str], dict[int, IssueKind]]:
    """Fill in what a proof omits; return the complete lines and the kinds of the omissions by line."""
    completed: list[str] = []
    omissions: dict[int, IssueKind] = {}
    claimed: str | None = None  # value claimed by the previous line
    for index, line in enumerate(lines):
        bare = _BARE_CLAIM.fullmatch(line)
        if bare and bare["verb"] in VERB_BY_WORD and claimed is not None:
            omissions[index] = OmissionKind.BARE_CLAIM
            operator = VERB_BY_WORD[bare["verb"]].operator
            line = f"{bare['head']}: {claimed} {operator} {bare['amount']} = {bare['result']}"
        completed.append(line)
        claimed = _last_claim(line)
    if claimed is not None:
        omissions[len(lines)] = OmissionKind.MISSING_CONCLUSION
        completed.append(f"{CONCLUSION_MARK} {claimed}")
    return completed, omissions


def _last_claim(line: str) -> str | None:
    """Return the value that a line ends with; `None` for a conclusion or a line without a claim."""
    tail = line.rpartition(": ")[2]
    claims = [match["value"] for match in _CLAIM.finditer(tail) if match.end() == len(tail)]
    return claims[-1] if claims else None
