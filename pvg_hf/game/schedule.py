"""Which phases a game has, in which order, and where each leaves its results."""

import re
from dataclasses import dataclass
from pathlib import Path

from pvg_hf.config import Recipe
from pvg_hf.data.schema import round_folders, round_index_of
from pvg_hf.game.folder import RunFolder, partial_of

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


def early_phases(recipe: Recipe) -> list[PhaseKey]:
    """The phases before the first round, in order."""
    has_warmup = any(player.warmup or player.scratch for player in (recipe.prover, recipe.verifier))
    return [PhaseKey(name) for name in (("warmup", "bootstrap") if has_warmup else ("bootstrap",))]


def schedule(recipe: Recipe) -> list[PhaseKey]:
    """Every phase of the game, in order."""
    return early_phases(recipe) + [PhaseKey(name, k) for k in range(recipe.num_rounds) for name in ROUND_PHASES]


def num_phases(recipe: Recipe) -> int:
    """Length of the [`schedule`]."""
    return len(early_phases(recipe)) + recipe.num_rounds * len(ROUND_PHASES)


def finished_phases(recipe: Recipe, folder: RunFolder) -> list[PhaseKey]:
    """The finished phases of a run, in order. Its folders are listed: a game may have many more rounds than were played."""
    early = [key for key in early_phases(recipe) if key.target(folder).exists()]
    found = [
        PhaseKey(name, k) for name in ROUND_PHASES for k in round_folders(PhaseKey(name, 0).target(folder).parent)
    ]
    in_rounds = [key for key in found if key.round_index < recipe.num_rounds]
    return early + sorted(in_rounds, key=lambda key: (key.round_index, ROUND_PHASES.index(key.name)))


def begun_phases(recipe: Recipe, folder: RunFolder) -> list[PhaseKey]:
    """The phases of a run that have a folder, be it an unfinished one; first the finished ones."""
    finished = finished_phases(recipe, folder)
    partial = [key for key in early_phases(recipe) if partial_of(key.target(folder)).exists()]
    for name in ROUND_PHASES:
        for path in PhaseKey(name, 0).target(folder).parent.glob(".round-*.partial"):
            index = round_index_of(path.name.removeprefix(".").removesuffix(".partial"))
            if index is not None and index < recipe.num_rounds:
                partial.append(PhaseKey(name, index))
    return finished + partial


def unfinished(recipe: Recipe) -> list[PhaseKey]:
    """What is left of the game, in order."""
    finished = set(finished_phases(recipe, RunFolder(Path(recipe.output_dir) / recipe.name)))
    return [phase for phase in schedule(recipe) if phase not in finished]


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
