"""A version of the world, as the task uses it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pvg_hf.tasks.arithmetic.flaw import Flaw


@dataclass(frozen=True)
class Reading:
    """
    A solution as the checker reads it.

    Args:
        flaws (`tuple[Flaw, ...]`):
            At most one per line, in order.
        implicit_share (`float`, *optional*):
            Share of the facts that the solution leaves to the reader, in [0, 1]. Each calculation that the answer
            needs has three: whose number it is, which comparison gives it, and the calculation itself. `None` in a
            world whose solutions have one form.
    """

    flaws: tuple[Flaw, ...]
    implicit_share: float | None = None


@dataclass(frozen=True)
class World:
    """
    One version of the world.

    Args:
        difficulties (`tuple[int, int]`):
            Smallest and largest number of calculations of a problem.
        draw (`Callable`):
            `(rng, difficulty, distractor_rate) -> (problem, reference)`, both texts.
        parse (`Callable`):
            `problem -> puzzle or story`, from the problem's text.
        check (`Callable`):
            `(puzzle or story, solution) -> Reading`.
        problem_mistake (`Callable`):
            `(problem, difficulties) -> str | None`: why a text is not a problem of this world.
    """

    difficulties: tuple[int, int]
    draw: Callable[[np.random.Generator, int, float], tuple[str, str]]
    parse: Callable[[str], Any]
    check: Callable[[Any, str], Reading]
    problem_mistake: Callable[[str, tuple[int, int]], str | None]

    def read(self, problem: str, solution: str) -> Reading:
        """
        Check a solution, given the text of its problem.

        Raises:
            ValueError: if `problem` is not a problem of this world.
        """
        return self.check(self.parse(problem), solution)
