"""Plays one recipe with several seeds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pvg_hf.config import Recipe, load_recipe
from pvg_hf.experimental.sweep.cells import SweepFolder
from pvg_hf.experimental.sweep.runner import CellsFailedError
from pvg_hf.experimental.sweep.workers import finish_cells, log_ends
from pvg_hf.game.play import play
from pvg_hf.run.layout import RunFolder
from pvg_hf.run.shared_phases import begin_with


@dataclass(frozen=True)
class Replicate:
    """
    A game of the replication.

    Args:
        seed (`int`):
            Its seed.
    """

    seed: int

    @property
    def reference(self) -> "Replicate":
        """The game that must be finished before: none but itself."""
        return self

    def __str__(self) -> str:
        return f"seed {self.seed}"


def replicate(recipe: Recipe, seeds: Sequence[int], *, num_workers: int = 1, beginning: str | None = None) -> None:
    """
    Play or resume a recipe once per seed.

    Args:
        recipe ([`~pvg_hf.config.Recipe`]):
            The recipe; its seed is replaced.
        seeds (`Sequence[int]`):
            The seeds.
        num_workers (`int`, defaults to 1):
            Number of games played at a time, each in a process.
        beginning (`str`, *optional*):
            Name of another replicated recipe in the same `output_dir`, whose bootstrap and first verifiers are taken over
            where they are the same (see [`~pvg_hf.run.shared_phases.begin_with`]).

    Raises:
        CellsFailedError: if games could not be played; the others are finished.
    """
    work_on_seeds(recipe, seeds, partial(_play_replicate, recipe, beginning), num_workers=num_workers)


def work_on_seeds(
    recipe: Recipe, seeds: Sequence[int], work: Callable[[Replicate], None], *, num_workers: int
) -> None:
    """
    Do a piece of work for each seed of a recipe.

    Args:
        recipe ([`~pvg_hf.config.Recipe`]), seeds (`Sequence[int]`):
            As in [`replicate`].
        work (`Callable`):
            The work; it must be picklable, and continues what an earlier call has begun.
        num_workers (`int`):
            Number of processes. With 1, the work is done in this process.

    Raises:
        CellsFailedError: if the work fails for some seeds; it is finished for the others.
    """
    games = [Replicate(seed) for seed in dict.fromkeys(seeds)]
    ended = finish_cells(games, set(), work, num_workers=num_workers)
    outcomes = dict(log_ends(ended, len(games), lambda game: "finished"))
    failed = {game: error for game, error in outcomes.items() if error is not None}
    if failed:
        raise CellsFailedError(failed, len(games), SweepFolder(Path(recipe.output_dir)))


def replicate_recipe(recipe: Recipe, seed: int) -> Recipe:
    """Return the recipe of one seed, whose run is `NAME-seed-K`."""
    return load_recipe({**recipe.to_dict(), "name": f"{recipe.name}-seed-{seed}", "seed": seed})


def _play_replicate(recipe: Recipe, beginning: str | None, game: Replicate) -> None:
    played = replicate_recipe(recipe, game.seed)
    if beginning is not None:
        begin_with(played, RunFolder.of(replicate_recipe(replace(recipe, name=beginning), game.seed)))
    play(played)
