"""Which phases a game has, in which order, and where each leaves its results."""

import re
from dataclasses import dataclass
from pathlib import Path

from pvg_hf.config import Recipe
from pvg_hf.game.folder import RunFolder

ROUND_PHASES = ("verifier", "prover", "mint", "evaluate")


@dataclass(frozen=True)
class PhaseKey:
    """
    One phase of a game.

    Args:
        name (`str`):
            `warmup`, `bootstrap`, or one of `ROUND_PHASES`.
        round_index (`int`, *optional*):
            `None` for the phases before the first round.
    """

    name: str
    round_index: int | None = None

    def __str__(self) -> str:
        return self.name if self.round_index is None else f"round-{self.round_index:03d}/{self.name}"

    @classmethod
    def parse(cls, text: str, round_index: int | None = None) -> "PhaseKey":
        """The phase that `round-000/prover`, or `prover` with a round's index, names."""
        match = re.fullmatch(r"round-(\d+)/(.+)", text)
        if match is None:
            return cls(text, round_index)
        if round_index not in (None, int(match[1])):
            raise ValueError(
                f"The phase `{text}` and the round {round_index} contradict each other; leave out one round."
            )
        return cls(match[2], int(match[1]))

    def target(self, folder: RunFolder) -> Path:
        """The folder whose existence says that the phase is finished."""
        if self.name == "warmup":
            return folder.models
        if self.name == "bootstrap":
            return folder.pool(-1)
        places = {"verifier": folder.verifier, "prover": folder.prover, "mint": folder.pool}
        return places.get(self.name, folder.evaluation)(self.round_index)


def schedule(recipe: Recipe) -> list[PhaseKey]:
    """Every phase of the game, in order."""
    phases = [PhaseKey("bootstrap")]
    if any(player.warmup or player.scratch for player in (recipe.prover, recipe.verifier)):
        phases.insert(0, PhaseKey("warmup"))
    return phases + [PhaseKey(name, k) for k in range(recipe.num_rounds) for name in ROUND_PHASES]


def unfinished(recipe: Recipe) -> list[PhaseKey]:
    """What is left of the game, in order."""
    folder = RunFolder(Path(recipe.output_dir) / recipe.name)
    return [phase for phase in schedule(recipe) if not phase.target(folder).exists()]


def planned_steps(recipe: Recipe, phase: PhaseKey) -> int:
    """Optimiser steps of a phase if nothing ends it early."""
    if phase.name == "warmup":
        return sum(player.warmup.max_steps for player in (recipe.prover, recipe.verifier) if player.warmup)
    config = recipe if phase.round_index is None else recipe.for_round(phase.round_index)
    if phase.name == "verifier":
        return config.verifier.max_steps
    if phase.name == "prover":
        return config.prover.planned_steps
    return 0


def game_steps(recipe: Recipe, phase: PhaseKey) -> range:
    """A phase's place on the game's continuous step axis; no phase's length depends on when it was stopped."""
    phases = schedule(recipe)
    start = sum(planned_steps(recipe, earlier) for earlier in phases[: phases.index(phase)])
    return range(start, start + planned_steps(recipe, phase))
