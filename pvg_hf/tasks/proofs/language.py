"""The language of analyses: each line quotes a line of the proof and marks it, `has 12 | ok`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pvg_hf.tasks.arithmetic.checker import FlawKind
from pvg_hf.tasks.proofs.checker import CONCLUSION_MARK, Issue, IssueKind, OmissionKind

SEPARATOR = " | "
FINE = "ok"
MARKS: dict[IssueKind, str] = {kind: kind.value.replace("_", " ") for kind in (*FlawKind, *OmissionKind)}


@dataclass(frozen=True)
class NamedIssue:
    """
    An issue as an analysis names it.

    Args:
        quote (`str`):
            The line that it is said to be in.
        mark (`str`):
            What is said to be wrong; one that is none of `MARKS` names an issue that no proof has.
    """

    quote: str
    mark: str


def write_marks(marks: Iterable[tuple[str, IssueKind | None]]) -> str:
    """An analysis of quoted lines, each with what is wrong with it."""
    return "\n".join(f"{quote}{SEPARATOR}{FINE if kind is None else MARKS[kind]}" for quote, kind in marks)


def true_marks(proof: str, issues: Iterable[Issue]) -> Iterator[tuple[str, IssueKind | None]]:
    """Each line of a proof with what is wrong with it, and a conclusion that is missing."""
    kinds = {issue.line: issue.kind for issue in issues}
    lines = proof.strip().split("\n")
    if len(lines) in kinds:
        lines.append(CONCLUSION_MARK)
    for index, line in enumerate(lines):
        yield line, kinds.get(index)


def read_issues(analysis: str) -> list[NamedIssue]:
    """The issues that an analysis names, in order, each once. A line without the separator names none."""
    named = []
    for line in analysis.split("\n"):
        quote, separator, mark = " ".join(line.split()).rpartition(SEPARATOR)
        if separator and mark != FINE:
            named.append(NamedIssue(quote, mark))
    return list(dict.fromkeys(named))


def judge_issues(analysis: str, issues: Iterable[Issue]) -> list[tuple[NamedIssue, bool]]:
    """Each issue that an analysis names, and whether the proof, whose true issues are given, really has it."""
    real = {NamedIssue(" ".join(issue.quote.split()), MARKS[issue.kind]) for issue in issues}
    return [(named, named in real) for named in read_issues(analysis)]


def rate_analysis(analysis: str, issues: Iterable[Issue]) -> float:
    """
    The quality of an analysis of a proof whose true issues are given: 1 if all that it names exist, or it rightly names none;
    0.5 if some exist and some do not; 0 if none that it names exists, or it names none of a proof that has one.
    """
    issues = list(issues)
    verdicts = [is_real for _, is_real in judge_issues(analysis, issues)]
    if not verdicts:
        return float(not issues)
    return 1.0 if all(verdicts) else 0.5 if any(verdicts) else 0.0
