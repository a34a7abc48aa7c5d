"""Effect of label noise on the equilibrium of a message game: one recipe over noise levels and seeds."""

import copy
import logging
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import yaml

from pvg_hf.core.figure import Figure
from pvg_hf.core.files import replacing, write_json, write_text
from pvg_hf.core.integrity import read_json
from pvg_hf.core.units import show_seconds
from pvg_hf.experimental.messages.building import LoadedWorld, make_players, open_world
from pvg_hf.experimental.messages.folder import GAME
from pvg_hf.experimental.messages.game_modules import MessageGame
from pvg_hf.experimental.messages.judge import (
    MessageJudgement,
    acceptance_threshold,
    chance_of,
    judge_game,
    passes_gate,
    relative_distance,
    scores_of,
)
from pvg_hf.experimental.messages.recipe import MessageRecipe, MessageSource, load_message_recipe
from pvg_hf.experimental.messages.seed_games import is_stackable, train_seeds, with_noise
from pvg_hf.experimental.sweep.workers import finish_cells, log_ends
from pvg_hf.run.lock import locked
from pvg_hf.run.resume import list_changes

logger = logging.getLogger(__name__)

WITHOUT: MessageSource = "none"

# Keys that may change when a sweep is resumed.
_FREE = ("output_dir", "equilibrium.levels", "equilibrium.vectorized", "report_to", "save_steps", "controls")


@dataclass(frozen=True, order=True)
class NoiseLevel:
    """
    Work of a sweep: the games of all seeds at one noise level.

    Args:
        epsilon (`float`):
            Rate of flipped labels.
    """

    epsilon: float

    @property
    def reference(self) -> "NoiseLevel":
        """The clean games, with which all others are compared."""
        return NoiseLevel(0.0)

    def __str__(self) -> str:
        return f"epsilon {self.epsilon:g}"


@dataclass(frozen=True)
class EquilibriumFolder:
    """
    Paths of a sweep.

    Args:
        root (`Path`):
            `OUTPUT_DIR/NAME-equilibrium`.
    """

    root: Path

    @classmethod
    def of(cls, recipe: MessageRecipe) -> "EquilibriumFolder":
        return cls(Path(recipe.output_dir) / f"{recipe.name}-equilibrium")

    @property
    def recipe(self) -> Path:
        return self.root / "sweep.yaml"

    @property
    def table(self) -> Path:
        return self.root / "cells.csv"

    @property
    def summary(self) -> Path:
        return self.root / "summary.md"

    @property
    def plots(self) -> Path:
        return self.root / "plots"

    def result(self, level: NoiseLevel) -> Path:
        """Figures of a level; it is finished if this file exists."""
        return self.root / "levels" / f"{level.epsilon:g}.json"

    def clean_game(self, seed: int) -> Path:
        """Weights of a clean game."""
        return self.root / "clean" / f"seed-{seed}.pt"


def levels_of(recipe: MessageRecipe) -> list[NoiseLevel]:
    """List the noise levels, the clean one first."""
    return [NoiseLevel(0.0), *(NoiseLevel(epsilon) for epsilon in sorted({*recipe.equilibrium.levels} - {0.0}))]


def run_equilibrium(
    recipe: MessageRecipe, *, num_workers: int = 1, executor: Executor | None = None
) -> tuple[EquilibriumFolder, pd.DataFrame]:
    """
    Run or resume a sweep. The clean games come first; noisy ones are played only for seeds whose clean game passes the gate
    ([`~pvg_hf.experimental.messages.judge.passes_gate`]).

    Args:
        recipe ([`~pvg_hf.experimental.messages.recipe.MessageRecipe`]):
            The recipe; its section `equilibrium` says what is varied.
        num_workers (`int`, *optional*, defaults to `1`):
            Number of processes, each with one level at a time.
        executor (`Executor`, *optional*):
            Executor to run the levels on instead.

    Returns:
        The folder, and the table of [`equilibrium_table`].

    Raises:
        ValueError: if the recipe sets noise rates, or the folder belongs to another sweep.
    """
    folder = EquilibriumFolder.of(recipe)
    _check(recipe, folder)
    with locked(folder.root, is_main=True, user="The sweep in {root} is being run"):
        write_text(folder.recipe, yaml.safe_dump(recipe.to_dict(), sort_keys=False))
        for levels in (levels_of(recipe)[:1], levels_of(recipe)[1:]):
            todo = [level for level in levels if not folder.result(level).exists()]
            finished = {level for level in levels_of(recipe) if folder.result(level).exists()}
            work = partial(play_level, recipe)
            ended = finish_cells(
                todo, finished, work, num_workers=num_workers if len(todo) > 1 else 1, executor=executor
            )
            for _, error in log_ends(ended, len(todo), partial(_headline, recipe)):
                if error is not None:
                    raise error
            if not passing_seeds(recipe):
                break
    return folder, equilibrium_table(recipe)


def describe_equilibrium(recipe: MessageRecipe) -> str:
    """
    Check a sweep, and describe its levels, its seeds and its progress in a few lines. Nothing is written.

    Raises:
        ValueError: if the recipe has mistakes or sets noise rates, or the folder belongs to another sweep.
    """
    folder, levels = EquilibriumFolder.of(recipe), levels_of(recipe)
    _check(recipe, folder)
    make_players(recipe, open_world(replace(recipe, controls=[])), recipe.seed)
    todo = [level for level in levels if not folder.result(level).exists()]
    gate = "not known yet; the clean games come first"
    if folder.result(levels[0]).exists():
        gate = f"passed with the seeds {', '.join(map(str, passing_seeds(recipe))) or 'none'}"
    about, num_finished = "", len(levels) - len(todo)
    if todo and num_finished:
        seconds = seconds_of(recipe, levels)["all"] / num_finished * len(todo)
        about = f", about {show_seconds(seconds)} of one worker, as the finished ones took"
    return "\n".join(
        [
            f"Sweep    {folder.root}",
            f"Levels   epsilon {', '.join(f'{level.epsilon:g}' for level in levels)}",
            f"Seeds    {', '.join(map(str, recipe.equilibrium.seeds))}, {'together' if is_stackable(recipe) else 'one by one'}",
            f"Gate     {gate}",
            f"To play  {len(todo)} of {len(levels)} levels{about}",
        ]
    )


def play_level(recipe: MessageRecipe, level: NoiseLevel) -> None:
    """Play and judge the games of a level, and write their figures. The clean level also plays the games without messages."""
    folder, loaded = EquilibriumFolder.of(recipe), open_world(replace(recipe, controls=[]))
    started = time.monotonic()
    seeds = recipe.equilibrium.seeds if level == level.reference else passing_seeds(recipe)
    noisy = with_noise(recipe, level.epsilon)
    games = train_seeds(noisy, loaded, GAME, seeds)
    trained = time.monotonic() - started
    results = {
        str(seed): _judged(replace(noisy, seed=seed), loaded, folder, level, game) for seed, game in zip(seeds, games)
    }
    if level == level.reference:
        for seed, game in zip(seeds, train_seeds(recipe, loaded, WITHOUT, seeds)):
            results[str(seed)][WITHOUT] = judge_game(game, loaded, replace(noisy, seed=seed)).to_dict()
    seconds = {"training": trained, "all": time.monotonic() - started}
    write_json(folder.result(level), {"epsilon": level.epsilon, "seconds": seconds, "seeds": results})


def _judged(
    recipe: MessageRecipe, loaded: LoadedWorld, folder: EquilibriumFolder, level: NoiseLevel, game: MessageGame
) -> dict[str, Any]:
    """Judge a game by the recipe with its own seed and noise, and compare it with the clean game of the seed."""
    if level == level.reference:
        with replacing(folder.clean_game(recipe.seed)) as path:
            torch.save(game.state_dict(), path)
    clean = _clean_game(folder, recipe.seed, game)
    decisions = [
        scores_of(player, loaded.test) >= acceptance_threshold(with_noise(recipe, epsilon))
        for player, epsilon in ((game, level.epsilon), (clean, 0.0))
    ]
    figures = judge_game(game, loaded, recipe).figures
    figures["decision_change"] = Figure(
        float((decisions[0] != decisions[1]).double().mean()), None, None, len(decisions[0])
    )
    figures["parameter_distance"] = Figure(relative_distance(game, clean), None, None, 1)
    return {GAME: MessageJudgement(figures).to_dict()}


def _clean_game(folder: EquilibriumFolder, seed: int, like: MessageGame) -> MessageGame:
    game = copy.deepcopy(like)
    game.load_state_dict(torch.load(folder.clean_game(seed), map_location="cpu", weights_only=True))
    return game.eval()


def passing_seeds(recipe: MessageRecipe) -> list[int]:
    """Return the seeds whose clean game passes the gate."""
    found = read_json(EquilibriumFolder.of(recipe).result(NoiseLevel(0.0)))["seeds"]
    judged = {
        int(seed): [MessageJudgement.from_dict(values[source]) for source in (GAME, WITHOUT)]
        for seed, values in found.items()
    }
    return [seed for seed in recipe.equilibrium.seeds if seed in judged and passes_gate(*judged[seed])]


def equilibrium_table(recipe: MessageRecipe) -> pd.DataFrame:
    """
    Return a row per finished level and seed that passes the gate, and for each clean game that fails it.

    Returns:
        `pd.DataFrame`: `epsilon`, `seed`, `passes`, a column for each figure of a [`MessageJudgement`], `loss_change` (clean loss less that of
        the seed's clean game), `decision_change`, `parameter_distance`, `chance` (see [`~pvg_hf.experimental.messages.judge.chance_of`]), and
        `accuracy_without` of clean games.
    """
    folder, rows, passing = EquilibriumFolder.of(recipe), [], passing_seeds(recipe)
    for level in levels_of(recipe):
        if not folder.result(level).exists():
            continue
        for seed, values in read_json(folder.result(level))["seeds"].items():
            judged = MessageJudgement.from_dict(values[GAME])
            row = {"epsilon": level.epsilon, "seed": int(seed), "passes": int(seed) in passing}
            row |= {name: figure.value for name, figure in judged.figures.items()} | {"chance": chance_of(judged)}
            if WITHOUT in values:
                row["accuracy_without"] = values[WITHOUT]["accuracy"]["value"]
            rows.append(row)
    table = pd.DataFrame(rows).sort_values(["epsilon", "seed"], ignore_index=True)
    clean = table[table["epsilon"] == 0].set_index("seed")["clean_loss"]
    return table.assign(loss_change=table["clean_loss"] - table["seed"].map(clean))


def _headline(recipe: MessageRecipe, level: NoiseLevel) -> str:
    found = read_json(EquilibriumFolder.of(recipe).result(level))
    accuracies = [values[GAME]["accuracy"]["value"] for values in found["seeds"].values()]
    return f"mean accuracy {np.mean(accuracies):.3f} in {found['seconds']['all']:.0f} s"


def _check(recipe: MessageRecipe, folder: EquilibriumFolder) -> None:
    """
    Check that a sweep can be run in a folder.

    Raises:
        ValueError: if the recipe sets noise rates, or another sweep was started in the folder.
    """
    if recipe.noise.rho0 or recipe.noise.rho1:
        raise ValueError("`noise` sets a rate, but `equilibrium.levels` varies it: leave the rate out.")
    if not folder.result(NoiseLevel(0.0)).exists():  # nothing was finished: the recipe may still change
        return
    lines = list_changes(load_message_recipe(folder.recipe).to_dict(), recipe.to_dict(), _FREE)
    if lines:
        raise ValueError(
            f"The sweep `{folder.root.name}` was started with another recipe:\n"
            + "\n".join(lines)
            + "\nGive this one another `name`. Only levels may be added or removed."
        )


def seconds_of(recipe: MessageRecipe, levels: Sequence[NoiseLevel]) -> dict[str, float]:
    """Return the seconds that levels took in all: `training`, and `all` with judging."""
    folder = EquilibriumFolder.of(recipe)
    found = [read_json(folder.result(level))["seconds"] for level in levels if folder.result(level).exists()]
    return {name: sum(seconds[name] for seconds in found) for name in ("training", "all")}
