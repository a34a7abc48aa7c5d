"""A version of the world, as the task uses it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pvg_hf.tasks.arithmetic.flaw import Flaw, FlawKind

_MAX_DRAWS = 20  # of a flawed solution whose numbers are in the world's range


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
        flaw_kinds (`tuple[FlawKind, ...]`):
            Kinds of flaws that the world writes.
        spoil (`Callable`):
            `(rng, puzzle or story, kind) -> str | None`: a solution with one flaw; `None` for a draw that the world
            cannot write.
    """

    difficulties: tuple[int, int]
    draw: Callable[[np.random.Generator, int, float], tuple[str, str]]
    parse: Callable[[str], Any]
    check: Callable[[Any, str], Reading]
    problem_mistake: Callable[[str, tuple[int, int]], str | None]
    flaw_kinds: tuple[FlawKind, ...]
    spoil: Callable[[np.random.Generator, Any, FlawKind], str | None]

    def read(self, problem: str, solution: str) -> Reading:
        """
        Check a solution, given the text of its problem.

        Raises:
            ValueError: if `problem` is not a problem of this world.
        """
        return self.check(self.parse(problem), solution)

    def flawed_solution(self, rng: np.random.Generator, problem: str, kind: FlawKind) -> str | None:
        """
        Draw a solution with one flaw of a kind, given the text of its problem.

        Its answer can be right by chance, and where the kind is impossible the flaw can be of another one.

        Returns:
            `str`; `None` if none of a few draws can be written in this world.
        """
        parsed = self.parse(problem)
        return next((text for _ in range(_MAX_DRAWS) if (text := self.spoil(rng, parsed, kind)) is not None), None)
