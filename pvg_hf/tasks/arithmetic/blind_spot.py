"""A checker with a systematic error: it does not notice a step that a solution leaves out."""

from collections.abc import Mapping
from typing import Any

from pvg_hf.tasks.answers import grade_answer
from pvg_hf.tasks.arithmetic.flaw import FlawKind
from pvg_hf.tasks.arithmetic.task import find_flaws


def overlooks_dropped_steps(problem: Mapping[str, Any], solution: str) -> bool:
    """
    Accept correct solutions, and wrong answers that result from dropped steps alone, as `noise.checker.base`.

    Unlike random false positives, these follow a pattern, so a prover can learn to exploit them.

    Args:
        problem: A row with `problem` (the text) and `reference`.
    """
    if grade_answer(solution, problem["reference"]).correct:
        return True
    flaws = find_flaws(problem["problem"], solution)
    return bool(flaws) and all(flaw.kind == FlawKind.DROPPED_STEP for flaw in flaws)
