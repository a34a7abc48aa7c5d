"""Training texts for the base models."""

from dataclasses import dataclass

import numpy as np

from pvg_hf.core.roles import Role
from pvg_hf.tasks.arithmetic.grammar import Puzzle, sample_puzzle
from pvg_hf.tasks.arithmetic.writer import FLAW_KINDS, STYLES, sample_solution


@dataclass(frozen=True)
class CorpusConfig:
    """
    Distribution of the training texts.

    Args:
        min_difficulty, max_difficulty: Number of calculations of a problem: the smaller of two uniform draws, so that
            short problems are more frequent.
        distractor_rate: Share of problems with a person whom the answer does not need.
        flaw_rate: Share of flawed solutions for each role, in [0, 1]; a text's role is drawn uniformly. The shares
            differ a little between roles, as an instruction-tuned model's answers do when it is asked to be helpful or
            to mislead; the rest is for the game to teach.
        styles: Styles of the solutions, keys of `STYLES`, drawn uniformly; one that is named twice is twice as
            frequent.
    """

    min_difficulty: int = 2
    max_difficulty: int = 6
    distractor_rate: float = 0.5
    flaw_rate: tuple[tuple[Role, float], ...] = ((Role.BASE, 0.15), (Role.HELPFUL, 0.075), (Role.SNEAKY, 0.2))
    styles: tuple[str, ...] = tuple(STYLES)


def sample_text(rng: np.random.Generator, config: CorpusConfig) -> tuple[Puzzle, Role, str]:
    """Draw a problem, a role, and a solution as the role's corpus has it."""
    difficulty = int(rng.integers(config.min_difficulty, config.max_difficulty + 1, size=2).min())
    puzzle = sample_puzzle(rng, difficulty, config.distractor_rate)
    role, flaw_rate = config.flaw_rate[rng.integers(len(config.flaw_rate))]
    flaw = FLAW_KINDS[rng.integers(len(FLAW_KINDS))] if rng.random() < flaw_rate else None
    return puzzle, role, sample_solution(rng, puzzle, flaw, config.styles)
