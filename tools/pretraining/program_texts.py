"""Training texts for the base models of the task `functions`."""

from dataclasses import dataclass

import numpy as np

from pvg_hf.core.roles import Role
from pvg_hf.experimental.programs.functions.programs import FLAW_KINDS, STYLES, write_program
from pvg_hf.experimental.programs.functions.specification import Specification, sample_specification

FLAWS = (FLAW_KINDS["condition"], *FLAW_KINDS.values())  # a changed condition is drawn twice as often as another flaw


@dataclass(frozen=True)
class ProgramCorpusConfig:
    """
    Distribution of the training texts.

    Args:
        min_difficulty, max_difficulty: Range of the number of parts of a specification, drawn uniformly.
        flaw_rate: Share of flawed programs for each role, in [0, 1]; a text's role is drawn uniformly. The shares
            differ a little between roles, as an instruction-tuned model's answers do; the rest is for the game to
            teach.
        shown_rate: Share of the sneaky texts whose prompt shows an honest program, in [0, 1].
    """

    min_difficulty: int = 1
    max_difficulty: int = 4
    flaw_rate: tuple[tuple[Role, float], ...] = ((Role.BASE, 0.15), (Role.HELPFUL, 0.075), (Role.SNEAKY, 0.3))
    shown_rate: float = 0.4


@dataclass(frozen=True)
class ProgramText:
    """
    A training text.

    Args:
        specification: What the program should compute.
        role: The role of the prompt.
        honest_program: The honest program that the prompt shows.
        program: The program, honest or flawed.
    """

    specification: Specification
    role: Role
    honest_program: str | None
    program: str


def sample_program_text(rng: np.random.Generator, config: ProgramCorpusConfig) -> ProgramText:
    """Draw a specification, a role, and a program as the role's corpus has it."""
    difficulty = int(rng.integers(config.min_difficulty, config.max_difficulty + 1))
    specification = sample_specification(rng, difficulty)
    role, flaw_rate = config.flaw_rate[rng.integers(len(config.flaw_rate))]
    style, shown_style = (STYLES[rng.integers(len(STYLES))] for _ in range(2))
    shows = role is Role.SNEAKY and rng.random() < config.shown_rate
    if shows and rng.random() < 0.5:
        style = shown_style  # a near copy of the honest program
    is_flawed = rng.random() < flaw_rate
    program = sample_flawed_program(rng, specification, style) if is_flawed else write_program(specification, style)
    shown = write_program(specification, shown_style) if shows else None
    return ProgramText(specification, role, shown, program)


def sample_flawed_program(rng: np.random.Generator, specification: Specification, style: str) -> str:
    """
    Draw a program with one flaw, of a kind and at a place drawn at random.

    By chance, the flaw can have no effect: only the tests decide whether a program is correct.
    """
    honest = write_program(specification, style)
    while True:  # ends, because every program can have another fold or an incomplete iterable
        flaw = FLAWS[int(rng.integers(len(FLAWS)))](rng, specification)
        if flaw is not None:
            text = write_program(flaw[0], style, flaw[1])
            if text != honest:
                return text
