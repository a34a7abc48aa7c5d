"""Finds the issues of a proof by itself: fatal flaws, and minor omissions."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from pvg_hf.tasks.arithmetic.checker import FlawKind, check_solution
from pvg_hf.tasks.arithmetic.grammar import VERB_BY_WORD, Story

CONCLUSION_MARK = "####"

_BARE_CLAIM = re.compile(r"(?P<head>\w+ (?P<verb>\w+) (?P<amount>\d+)): = (?P<result>-?\d+)")
_CLAIM = re.compile(r"(?:has|= ) ?(?P<value>-?\d+)")


class OmissionKind(StrEnum):
    """What a proof can leave out without being wrong."""

    BARE_CLAIM = "bare_claim"  # a step that states its result without the calculation
    MISSING_CONCLUSION = "missing_conclusion"  # the last line is a step, and no final answer follows


IssueKind = FlawKind | OmissionKind


@dataclass(frozen=True)
class Issue:
    """
    Args:
        line (`int`):
            From 0; a missing conclusion stands behind the last line.
        quote (`str`):
            The line; `####` for a conclusion that is missing.
        kind (`IssueKind`):
            What is wrong there.
    """

    line: int
    quote: str
    kind: IssueKind

    @property
    def is_fatal(self) -> bool:
        return isinstance(self.kind, FlawKind)


def check_proof(story: Story, proof: str) -> list[Issue]:
    """
    The issues of `proof`, at most one a line, in order. What was left out is filled in with what the proof claims, and the
    whole is checked like any solution: a bare claim that does not hold is a flaw.
    """
    lines = proof.strip().split("\n")
    completed, omissions = _complete(lines)
    flaws = [
        Issue(flaw.step, lines[flaw.step] if flaw.step < len(lines) else CONCLUSION_MARK, flaw.kind)
        for flaw in check_solution(story, "\n".join(completed))
    ]
    return sorted({issue.line: issue for issue in [*omissions, *flaws]}.values(), key=lambda issue: issue.line)


def grade_proof(issues: Iterable[Issue]) -> float:
    """1 without an issue, 0.5 where something minor is left out and nothing is wrong, 0 with a fatal flaw."""
    return min((0.0 if issue.is_fatal else 0.5 for issue in issues), default=1.0)


def _complete(lines: list[str]) -> tuple[list[str], list[Issue]]:
    """The lines with what was left out, and what that was."""
    completed: list[str] = []
    omissions: list[Issue] = []
    claimed: str | None = None  # by the line before
    for index, line in enumerate(lines):
        bare = _BARE_CLAIM.fullmatch(line)
        if bare and bare["verb"] in VERB_BY_WORD and claimed is not None:
            omissions.append(Issue(index, line, OmissionKind.BARE_CLAIM))
            operator = VERB_BY_WORD[bare["verb"]].operator
            line = f"{bare['head']}: {claimed} {operator} {bare['amount']} = {bare['result']}"
        completed.append(line)
        claimed = _last_claim(line)
    if claimed is not None:
        omissions.append(Issue(len(lines), CONCLUSION_MARK, OmissionKind.MISSING_CONCLUSION))
        completed.append(f"{CONCLUSION_MARK} {claimed}")
    return completed, omissions


def _last_claim(line: str) -> str | None:
    """The value that a line ends with; `None` for a conclusion, or a line that claims none."""
    tail = line.rpartition(": ")[2]
    claims = [match["value"] for match in _CLAIM.finditer(tail) if match.end() == len(tail)]
    return claims[-1] if claims else None
