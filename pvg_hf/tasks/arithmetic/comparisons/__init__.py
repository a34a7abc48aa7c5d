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
    parse_puzzle,
    puzzle_mistake,
    sample_puzzle,
)
from pvg_hf.tasks.arithmetic.comparisons.writer import FLAW_KINDS, reference_solution, sample_solution
from pvg_hf.tasks.arithmetic.world import World

__all__ = ["WORLD", "puzzle_of"]


puzzle_of = lru_cache(maxsize=4096)(parse_puzzle)
"""Parses a problem text, cached (see [`parse_puzzle`])."""


def _sample(rng: np.random.Generator, difficulty: int, distractor_rate: float) -> tuple[str, str]:
    puzzle = sample_puzzle(rng, difficulty, distractor_rate)
    return puzzle.text, reference_solution(puzzle)


WORLD = World(
    (MIN_DIFFICULTY, MAX_DIFFICULTY), _sample, puzzle_of, check_solution, puzzle_mistake, FLAW_KINDS, sample_solution
)
