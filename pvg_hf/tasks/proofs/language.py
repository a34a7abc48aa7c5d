"""
The language of analyses. Each line states what a line of the proof should be, quotes it with a `?` before the first
word that is not as stated, and marks it: `has 12 | has ? 13 | wrong operand`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import zip_longest

from pvg_hf.analyses.settings import ScoreVerifierSettings
from pvg_hf.tasks.arithmetic.flaw import FlawKind
from pvg_hf.tasks.proofs.flaw_detection import CheckedLine, Issue, IssueKind, OmissionKind

SEPARATOR = " | "
FINE = "ok"
DOUBT = "?"
MARKS: dict[IssueKind, str] = {kind: kind.value.replace("_", " ") for kind in (*FlawKind, *OmissionKind)}

PROOF_SETTINGS = ScoreVerifierSettings(
    evaluate_prompt="{{ problem }}\nproof:\n{{ proof }}\nevaluation:\n",
    judge_prompt="{{ problem }}\nproof:\n{{ proof }}\nanalysis:\n{{ analysis }}\nquality:\n",
    max_new_tokens=192,
    temperature=0.8,
)
"""Prompts for the world's models; short, because each word is one token."""

SELF_EVALUATION_PROMPT = "{{ problem }}\nhelpful solution and evaluation:\n"
"""Prompt that asks the world's prover for a proof and its own evaluation of it."""


@dataclass(frozen=True)
class NamedIssue:
    """
    An issue that an analysis names.

    Args:
        quote (`str`):
            The quoted line of the proof.
        mark (`str`):
            The kind of issue; a text that is not in `MARKS` names an issue that no proof has.
        line (`str`, *optional*):
            The line of the analysis that names it, with single spaces between words. It makes no difference in
            comparisons.
    """

    quote: str
    mark: str
    line: str = field(default="", compare=False)


def write_analysis(lines: Iterable[CheckedLine]) -> str:
    """Write an analysis of a proof's lines."""
    return "\n".join(
        SEPARATOR.join((line.expected, compare(line), FINE if line.kind is None else MARKS[line.kind]))
        for line in lines
    )


def compare(line: CheckedLine) -> str:
    """
    Quote a line, with a `?` before the first word that differs from what the line should be.

    A small model writes this word by word: while both lines, which it copies from, agree on the next word, it writes
    that, and else the `?`. To compare two finished lines in one step is much harder to learn.
    """
    expected, words = line.expected.split(), line.quote.split()
    pairs = enumerate(zip_longest(expected, words))
    place = next((index for index, (should, does) in pairs if should != does), None)
    return line.quote if place is None else " ".join([*words[:place], DOUBT, *words[place:]])


def read_issues(analysis: str) -> list[NamedIssue]:
    """
    Parse the issues that an analysis names, in order and without duplicates.

    What the line should be, and the `?`, may be missing: `has 13 | wrong operand`. A line without the separator names
    no issue.
    """
    named = []
    for line in analysis.split("\n"):
        line = " ".join(line.split())
        *statement, mark = line.split(SEPARATOR)
        if statement and mark != FINE:
            quote = " ".join(word for word in statement[-1].split() if word != DOUBT)
            named.append(NamedIssue(quote, mark, line))
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
