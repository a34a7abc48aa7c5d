"""
Comparisons, the world's second version: several people have things, each sentence compares two of them, and the same
solution can be written in many ways, some of them easy to check.
"""

from functools import lru_cache

import numpy as np

from pvg_hf.tasks.arithmetic.comparisons.flaw_detection import check_solution
from pvg_hf.tasks.arithmetic.comparisons.grammar import (
    MAX_DIFFICULTY,
    MIN_DIFFICULTY,
    Puzzle,
    parse_puzzle,
    puzzle_mistake,
    sample_puzzle,
)
from pvg_hf.tasks.arithmetic.comparisons.writer import reference_solution
from pvg_hf.tasks.arithmetic.world import Reading, World

__all__ = ["WORLD", "puzzle_of"]


@lru_cache(maxsize=4096)
def puzzle_of(problem: str) -> Puzzle:
    """Parse a problem text to its puzzle, cached (see [`parse_puzzle`])."""
    return parse_puzzle(problem)


def _sample(rng: np.random.Generator, difficulty: int, distractor_rate: float) -> tuple[str, str]:
    puzzle = sample_puzzle(rng, difficulty, distractor_rate)
    return puzzle.text, reference_solution(puzzle)


def _read(problem: str, solution: str) -> Reading:
    return check_solution(puzzle_of(problem), solution)


WORLD = World((MIN_DIFFICULTY, MAX_DIFFICULTY), _sample, _read, puzzle_mistake)
