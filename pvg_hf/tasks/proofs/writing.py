"""Writes flawed solutions, proofs of each score, and analyses with errors."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pvg_hf.tasks.arithmetic.flaw import FlawKind, nearby_number
from pvg_hf.tasks.arithmetic.grammar import MAX_NUMBER
from pvg_hf.tasks.proofs.flaw_detection import CONCLUSION_MARK, CheckedLine, OmissionKind, find_issues, grade_proof
from pvg_hf.tasks.proofs.stories import VERBS, Event, Step, Story, reference_solution, write_solution

Steps = list[Step]

CALCULATION = re.compile(r": .* = ")
_MAX_DRAWS = 20  # of a flawed solution whose numbers are in range


def sample_flawed_solution(rng: np.random.Generator, story: Story) -> str:
    """
    Write a solution with one flaw of a random kind at a random step, from whose wrong value later steps continue.

    Its final answer can be right by chance (two mistakes that cancel).
    """
    while True:  # ends, because a contradicted conclusion is always possible
        solution = write_flawed_solution(rng, story, FLAW_KINDS[rng.integers(len(FLAW_KINDS))])
        if solution is not None:
            return solution


def write_flawed_solution(rng: np.random.Generator, story: Story, kind: FlawKind) -> str | None:
    """
    Draw a solution with a flaw of `kind`; `None` if the draw contains a number outside [0, MAX_NUMBER].

    Its answer can be right by chance, and where the kind is impossible the flaw can be of another one.
    """
    steps, conclusion = _draw_flawed(rng, story, kind)
    numbers = [number for step in steps for number in (step.amount, step.left, step.right, step.result)]
    is_writable = all(0 <= number <= MAX_NUMBER for number in (*numbers, conclusion))
    return write_solution(story.start, steps, conclusion) if is_writable else None


def flawed_solution(rng: np.random.Generator, story: Story, kind: FlawKind) -> str | None:
    """Draw as [`write_flawed_solution`] a few times, until a draw can be written; `None` if none can."""
    draws = (write_flawed_solution(rng, story, kind) for _ in range(_MAX_DRAWS))
    return next((text for text in draws if text is not None), None)


def _draw_flawed(rng: np.random.Generator, story: Story, kind: FlawKind) -> tuple[Steps, int]:
    """Draw the steps and the final answer."""
    if kind is FlawKind.CONTRADICTED_CONCLUSION:
        steps = _continue(story.start, list(story.events))
        return steps, nearby_number(rng, steps[-1].result)
    place = int(rng.integers(len(story.events)))
    before = _continue(story.start, list(story.events[:place]))
    value = before[-1].result if before else story.start
    wrong = FLAW_WRITERS[kind](rng, story.events[place], value)
    # A dropped step leaves the value as it was.
    after = _continue(wrong[-1].result if wrong else value, list(story.events[place + 1 :]))
    steps = before + wrong + after
    return steps, steps[-1].result


def _continue(value: int, events: list[Event]) -> Steps:
    steps: Steps = []
    for event in events:
        steps.append(Step.of(event, value))
        value = steps[-1].result
    return steps


def _wrong_sum(rng: np.random.Generator, event: Event, value: int) -> Steps:
    step = Step.of(event, value)
    return [replace(step, result=nearby_number(rng, step.result))]


def _wrong_operand(rng: np.random.Generator, event: Event, value: int) -> Steps:
    """Misread the amount, or miscopy the last result."""
    if rng.random() < 0.5:
        misread = nearby_number(rng, event.amount)
        return [Step.of(replace(event, amount=misread if misread > 1 else event.amount + 1), value)]
    return [Step.of(event, nearby_number(rng, value))]


def _wrong_operation(rng: np.random.Generator, event: Event, value: int) -> Steps:
    """Misread the event (`gives` for `gets`), or name it correctly and apply the wrong operation."""
    opposite = {"+": "-", "-": "+", "*": "/", "/": "*"}[event.operator]
    verbs = [verb for verb in VERBS if verb.operator == opposite and verb.amount in (None, event.amount)]
    misread = Step.of(replace(event, verb=verbs[rng.integers(len(verbs))].word), value)
    return [misread if rng.random() < 0.5 else replace(misread, verb=event.verb)]


FLAW_WRITERS: dict[FlawKind, Callable[[np.random.Generator, Event, int], Steps]] = {
    FlawKind.WRONG_SUM: _wrong_sum,
    FlawKind.WRONG_OPERAND: _wrong_operand,
    FlawKind.WRONG_OPERATION: _wrong_operation,
    FlawKind.DROPPED_STEP: lambda rng, event, value: [],
}
STEP_FLAWS = tuple(FLAW_WRITERS)
FLAW_KINDS = (*FLAW_WRITERS, FlawKind.CONTRADICTED_CONCLUSION)
OMISSION_RATE = 0.3  # share of the flawed proofs that also have an omission


def write_proof(rng: np.random.Generator, story: Story, score: float) -> str:
    """Write a proof with the given score: without an issue (1), with one omission (0.5), or with a flaw (0)."""
    if score == 1:
        return reference_solution(story)
    if score == 0.5:
        return leave_out(rng, reference_solution(story))
    while True:  # ends, because a contradicted conclusion is fatal whatever is omitted
        proof = sample_flawed_solution(rng, story)
        if rng.random() < OMISSION_RATE:
            proof = leave_out(rng, proof, OmissionKind.BARE_CLAIM)
        if grade_proof(find_issues(story, proof)) == 0:  # the omission may have removed the flaw, a miscopied number
            return proof


def leave_out(rng: np.random.Generator, proof: str, kind: OmissionKind | None = None) -> str:
    """Remove one step's calculation, or the conclusion; always the conclusion if there is no step."""
    *lines, conclusion = proof.split("\n")
    if kind is None:
        kind = list(OmissionKind)[rng.integers(len(OmissionKind))]
    if kind is OmissionKind.MISSING_CONCLUSION or len(lines) == 1:
        return "\n".join(lines)
    place = int(rng.integers(1, len(lines)))
    lines[place] = CALCULATION.sub(": = ", lines[place])
    return "\n".join([*lines, conclusion])


@dataclass(frozen=True)
class AnalysisRates:
    """
    Error rates of the written analyses, in [0, 1].

    For a hallucinated or missed issue the analysis misstates what the line should be, and its mark is consistent with
    that.

    Args:
        hallucinated: Share of the lines without an issue that are marked as having one.
        missed: Share of the lines with an issue that are marked as fine.
        broken_form: Share of the evaluations without a required sentence or an allowed score.
        wrong_score: Share of the evaluations with a score drawn at random, regardless of the issues named.
    """

    hallucinated: float = 0.05
    missed: float = 0.15
    broken_form: float = 0.3
    wrong_score: float = 0.15


PERFECT = AnalysisRates(0.0, 0.0, 0.0, 0.0)


def sample_rates(rng: np.random.Generator) -> AnalysisRates:
    """Draw error rates for an analysis that will be judged: one in three has no errors, the others have many."""
    return PERFECT if rng.random() < 1 / 3 else AnalysisRates(hallucinated=0.2, missed=0.3)


def sample_lines(rng: np.random.Generator, lines: list[CheckedLine], rates: AnalysisRates) -> list[CheckedLine]:
    """Draw the lines of an analysis, with errors."""
    return [_sample_line(rng, line, rates) for line in lines]


def _sample_line(rng: np.random.Generator, line: CheckedLine, rates: AnalysisRates) -> CheckedLine:
    if rng.random() >= (rates.hallucinated if line.kind is None else rates.missed):
        return line
    return _misstate(rng, line) if line.kind is None else CheckedLine(line.quote, line.quote, None)


def _misstate(rng: np.random.Generator, line: CheckedLine) -> CheckedLine:
    """Change a number of what a sound line should be, and name the issue that the line would have."""
    numbers = list(re.finditer(r"\d+", line.expected))
    number = numbers[rng.integers(len(numbers))]
    wrong = min(nearby_number(rng, int(number[0])), MAX_NUMBER - 1)
    wrong += wrong == int(number[0])
    expected = f"{line.expected[: number.start()]}{wrong}{line.expected[number.end() :]}"
    if line.quote.startswith(CONCLUSION_MARK):
        return CheckedLine(expected, line.quote, FlawKind.CONTRADICTED_CONCLUSION)
    is_result = len(numbers) > 1 and number is numbers[-1]
    return CheckedLine(expected, line.quote, FlawKind.WRONG_SUM if is_result else FlawKind.WRONG_OPERAND)
