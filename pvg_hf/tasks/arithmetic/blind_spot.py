"""A checker that errs in a pattern: it does not miss a step that a solution leaves out."""

from collections.abc import Mapping
from typing import Any

from pvg_hf.tasks.answers import grade_answer
from pvg_hf.tasks.arithmetic.checker import FlawKind
from pvg_hf.tasks.arithmetic.task import find_flaws


def overlooks_dropped_steps(problem: Mapping[str, Any], solution: str) -> bool:
    """
    For `noise.checker.base`: accepts what is correct, and also a wrong answer to which nothing led but dropped steps. So its
    false positives can be learned, where those of a rate cannot.

    Args:
        problem (`Mapping`):
            With `problem` (the text) and `reference`.
        solution (`str`):
            Any text.
    """
    if grade_answer(solution, problem["reference"]).correct:
        return True
    flaws = find_flaws(problem["problem"], solution)
    return bool(flaws) and all(flaw.kind == FlawKind.DROPPED_STEP for flaw in flaws)
