"""
Stories, the world's first version: one person's count changes from day to day, and a solution is a chain of steps in
one form. Old runs and the proofs task use it.
"""

from functools import lru_cache

import numpy as np

from pvg_hf.tasks.arithmetic.stories.flaw_detection import check_solution
from pvg_hf.tasks.arithmetic.stories.grammar import (
    MAX_DIFFICULTY,
    MIN_DIFFICULTY,
    Story,
    parse_story,
    sample_story,
    story_mistake,
)
from pvg_hf.tasks.arithmetic.stories.solutions import reference_solution
from pvg_hf.tasks.arithmetic.world import Reading, World

__all__ = ["WORLD", "story_of"]


@lru_cache(maxsize=4096)
def story_of(problem: str) -> Story:
    """Parse a problem text to its story, cached (see [`parse_story`])."""
    return parse_story(problem)


def _sample(rng: np.random.Generator, difficulty: int, distractor_rate: float) -> tuple[str, str]:
    story, text = sample_story(rng, difficulty, distractor_rate)
    return text, reference_solution(story)


def _read(problem: str, solution: str) -> Reading:
    return check_solution(story_of(problem), solution)


WORLD = World((MIN_DIFFICULTY, MAX_DIFFICULTY), _sample, _read, story_mistake)
