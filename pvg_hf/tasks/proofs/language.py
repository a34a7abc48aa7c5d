"""The language of analyses: each line quotes a line of the proof and marks it, e.g. `has 12 | ok`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pvg_hf.tasks.arithmetic.flaw import FlawKind
from pvg_hf.tasks.proofs.flaw_detection import CONCLUSION_MARK, Issue, IssueKind, OmissionKind

SEPARATOR = " | "
FINE = "ok"
MARKS: dict[IssueKind, str] = {kind: kind.value.replace("_", " ") for kind in (*FlawKind, *OmissionKind)}


@dataclass(frozen=True)
class NamedIssue:
    """
    An issue that an analysis names.

    Args:
        quote (`str`):
            The quoted line of the proof.
        mark (`str`):
            The kind of issue; a text that is not in `MARKS` names an issue that no proof has.
    """

    quote: str
    mark: str


def write_marks(marks: Iterable[tuple[str, IssueKind | None]]) -> str:
    """Write an analysis of quoted lines, each with its issue or none."""
    return "\n".join(f"{quote}{SEPARATOR}{FINE if kind is None else MARKS[kind]}" for quote, kind in marks)


def true_marks(proof: str, issues: Iterable[Issue]) -> Iterator[tuple[str, IssueKind | None]]:
    """Yield each line of a proof with its true issue, if any, and a missing conclusion."""
    kinds = {issue.line: issue.kind for issue in issues}
    lines = proof.strip().split("\n")
    if len(lines) in kinds:
        lines.append(CONCLUSION_MARK)
    for index, line in enumerate(lines):
        yield line, kinds.get(index)


def read_issues(analysis: str) -> list[NamedIssue]:
    """
    Parse the issues that an analysis names, in order and without duplicates.

    A line without the separator names none.
    """
    named = []
    for line in analysis.split("\n"):
        quote, separator, mark = " ".join(line.split()).rpartition(SEPARATOR)
        if separator and mark != FINE:
            named.append(NamedIssue(quote, mark))
    return list(dict.fromkeys(named))


def judge_issues(analysis: str, issues: Iterable[Issue]) -> list[tuple[NamedIssue, bool]]:
    """List the issues that an analysis names, each with whether it is among the proof's true `issues`."""
    real = {NamedIssue(" ".join(issue.quote.split()), MARKS[issue.kind]) for issue in issues}
    return [(named, named in real) for named in read_issues(analysis)]


def rate_analysis(analysis: str, issues: Iterable[Issue]) -> float:
    """
    Rate an analysis of a proof with the true `issues`.

    The quality is 1 if all issues that it names exist, or if it rightly names none; 0.5 if only some exist; 0 if none
    exists, or if it names none although the proof has one.
    """
    issues = list(issues)
    verdicts = [is_real for _, is_real in judge_issues(analysis, issues)]
    if not verdicts:
        return float(not issues)
    return 1.0 if all(verdicts) else 0.5 if any(verdicts) else 0.0
