"""Flaws of a solution, and their kinds."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np


class FlawKind(StrEnum):
    """Kind of a flaw."""

    WRONG_SUM = "wrong_sum"  # the equation does not hold
    WRONG_OPERAND = "wrong_operand"  # a number that is neither the problem's nor an earlier result
    WRONG_OPERATION = "wrong_operation"  # an operation that the problem does not imply, or a misread sentence
    WRONG_SOURCE = "wrong_source"  # the number of another person than the one whom the problem names
    DROPPED_STEP = "dropped_step"  # a calculation that the answer needs was skipped
    CONTRADICTED_CONCLUSION = "contradicted_conclusion"  # the final answer differs from the solution's own result
    INVENTED_STEP = "invented_step"  # a step that nothing in the problem asks for
    MALFORMED = "malformed"  # a line that cannot be parsed


@dataclass(frozen=True)
class Flaw:
    """
    A flaw of a solution.

    Args:
        step (`int`):
            Line of the flaw, from 0. A dropped step is reported at the line that skips it.
        kind (`FlawKind`):
            The kind of flaw; the first that applies, in the order of the checker.
    """

    step: int
    kind: FlawKind


@dataclass(frozen=True)
class Reading:
    """
    A solution as the checker reads it.

    Args:
        flaws: At most one per line, in order.
        implicit_share: Share of the facts that the solution leaves to the reader, in [0, 1]. Each calculation that the
            answer needs has three: whose number it is, which comparison gives it, and the calculation itself. `None`
            for a proof, which has one form.
    """

    flaws: tuple[Flaw, ...]
    implicit_share: float | None = None


def nearby_number(rng: np.random.Generator, value: int) -> int:
    """Draw a number that is easily confused with `value`: off by a little, or by ten."""
    offset = int(rng.choice([1, 1, 1, 2, 3, 10]))
    return value + offset if value <= offset or rng.random() < 0.5 else value - offset
