"""
Stories, the world's first version: one person's count changes from day to day, and a solution is a chain of steps in
one form. Old runs and the proofs task use it.
"""

from functools import lru_cache

import numpy as np

from pvg_hf.tasks.arithmetic.stories.flaw_detection import check_solution
from pvg_hf.tasks.arithmetic.stories.flawed_solutions import FLAW_KINDS, write_flawed_solution
from pvg_hf.tasks.arithmetic.stories.grammar import (
    MAX_DIFFICULTY,
    MIN_DIFFICULTY,
    parse_story,
    sample_story,
    story_mistake,
)
from pvg_hf.tasks.arithmetic.stories.solutions import reference_solution
from pvg_hf.tasks.arithmetic.world import World

__all__ = ["WORLD", "story_of"]


story_of = lru_cache(maxsize=4096)(parse_story)
"""Parses a problem text, cached (see [`parse_story`])."""


def _sample(rng: np.random.Generator, difficulty: int, distractor_rate: float) -> tuple[str, str]:
    story, text = sample_story(rng, difficulty, distractor_rate)
    return text, reference_solution(story)


WORLD = World(
    (MIN_DIFFICULTY, MAX_DIFFICULTY),
    _sample,
    story_of,
    check_solution,
    story_mistake,
    FLAW_KINDS,
    write_flawed_solution,
)
