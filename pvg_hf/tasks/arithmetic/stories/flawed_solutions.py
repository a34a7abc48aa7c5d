"""Writes flawed solutions: a flaw of a given kind, with later steps computed from its result."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pvg_hf.tasks.arithmetic.flaw import FlawKind, nearby_number
from pvg_hf.tasks.arithmetic.stories.grammar import MAX_NUMBER, VERBS, Event, Story
from pvg_hf.tasks.arithmetic.stories.solutions import Step, write_solution

Steps = list[Step]


def sample_flawed_solution(rng: np.random.Generator, story: Story) -> str:
    """
    Write a solution of `story` with one flaw of a random kind at a random step; later steps continue from the wrong
    value.

    Its final answer can be right by chance (two mistakes that cancel).
    """
    while True:  # ends, because a contradicted conclusion is always possible
        solution = write_flawed_solution(rng, story, FLAW_KINDS[rng.integers(len(FLAW_KINDS))])
        if solution is not None:
            return solution


def write_flawed_solution(rng: np.random.Generator, story: Story, kind: FlawKind) -> str | None:
    """Draw a solution with a flaw of `kind`; `None` if the draw contains a number outside [0, MAX_NUMBER]."""
    steps, conclusion = _draw_flawed(rng, story, kind)
    return write_solution(story.start, steps, conclusion) if _are_writable(steps, conclusion) else None


def _are_writable(steps: Steps, conclusion: int) -> bool:
    numbers = [number for step in steps for number in (step.amount, step.left, step.right, step.result)]
    return all(0 <= number <= MAX_NUMBER for number in (*numbers, conclusion))


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
    if rng.random() < 0.5:
        return [misread]
    return [replace(misread, verb=event.verb)]


def _dropped_step(rng: np.random.Generator, event: Event, value: int) -> Steps:
    return []


FLAW_WRITERS: dict[FlawKind, Callable[[np.random.Generator, Event, int], Steps]] = {
    FlawKind.WRONG_SUM: _wrong_sum,
    FlawKind.WRONG_OPERAND: _wrong_operand,
    FlawKind.WRONG_OPERATION: _wrong_operation,
    FlawKind.DROPPED_STEP: _dropped_step,
}
STEP_FLAWS = tuple(FLAW_WRITERS)
FLAW_KINDS = (*FLAW_WRITERS, FlawKind.CONTRADICTED_CONCLUSION)
