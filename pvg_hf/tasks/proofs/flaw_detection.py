"""Finds the issues of a proof: fatal flaws and minor omissions."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from pvg_hf.tasks.arithmetic.flaw import FlawKind
from pvg_hf.tasks.arithmetic.stories.flaw_detection import check_solution, expected_lines
from pvg_hf.tasks.arithmetic.stories.grammar import VERB_BY_WORD, Story

CONCLUSION_MARK = "####"

_BARE_CLAIM = re.compile(r"(?P<head>\w+ (?P<verb>\w+) (?P<amount>\d+)): = (?P<result>-?\d+)")
_CLAIM = re.compile(r"(?:has|= ) ?(?P<value>-?\d+)")


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
        kind (`IssueKind`):
            The kind of issue.
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
        expected (`str`):
            What the line should be, given the lines before it.
        quote (`str`):
            The text of the line; `####` for a missing conclusion.
        kind (`IssueKind`, *optional*):
            The kind of issue; `None` if the line is fine.
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
    return [
        CheckedLine(expected, quote, kinds.get(index))
        for index, (expected, quote) in enumerate(zip(expected_lines(story, solution), quotes, strict=True))
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
