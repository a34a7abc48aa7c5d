"""Effect of label noise on the equilibrium of a message game: one recipe over noise levels and seeds."""

import copy
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
import yaml

from pvg_hf.core.figure import Figure
from pvg_hf.core.files import replacing, write_json, write_text
from pvg_hf.core.integrity import read_json
from pvg_hf.core.units import show_seconds
from pvg_hf.experimental.messages.building import LoadedWorld, make_players, open_world, training_arguments
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
from pvg_hf.experimental.messages.recipe import LabelNoise, MessageRecipe, MessageSource, load_message_recipe
from pvg_hf.experimental.messages.run import make_message_trainer
from pvg_hf.experimental.messages.vectorized import train_stacked
from pvg_hf.run.jobs import Job, JobFolder, run_jobs
from pvg_hf.run.lock import locked
from pvg_hf.run.resume import check_same_settings

WITHOUT: MessageSource = "none"

# Keys that may change when a sweep is resumed.
_FREE = ("output_dir", "equilibrium.levels", "equilibrium.vectorized", "report_to", "save_steps", "controls")


def equilibrium_folder(recipe: MessageRecipe) -> JobFolder:
    return JobFolder(Path(recipe.output_dir) / f"{recipe.name}-equilibrium")


def result_file(recipe: MessageRecipe, epsilon: float) -> Path:
    """Figures of the games of all seeds at a noise level, which is finished if the file exists."""
    return equilibrium_folder(recipe).result(f"{epsilon:g}")


def levels_of(recipe: MessageRecipe) -> list[float]:
    """List the rates of flipped labels, the clean level first."""
    return sorted({0.0, *recipe.equilibrium.levels})


def run_equilibrium(
    recipe: MessageRecipe, *, num_workers: int = 1, executor: Executor | None = None
) -> tuple[JobFolder, pd.DataFrame]:
    """
    Run or resume a sweep. The clean games come first; noisy ones are played only for seeds whose clean game passes the
    gate ([`~pvg_hf.experimental.messages.judge.passes_gate`]).

    Args:
        recipe: The recipe; its section `equilibrium` says what is varied.
        num_workers: Number of processes, each with one level at a time.
        executor: Executor to run the levels on instead.
    Returns: The folder, and the table of [`equilibrium_table`].
    Raises `ValueError` if the recipe sets noise rates, or the folder belongs to another sweep.
    Raises `JobsFailedError` if levels could not be played; the others are kept.
    """
    folder = equilibrium_folder(recipe)
    _check(recipe)
    jobs = [
        Job(f"epsilon {epsilon:g}", partial(play_level, recipe, epsilon), result_file(recipe, epsilon).exists)
        for epsilon in levels_of(recipe)
    ]
    with locked(folder.root, is_main=True, user="The sweep in {root} is being run"):
        write_text(folder.recipe, yaml.safe_dump(recipe.to_dict(), sort_keys=False))
        run_jobs(jobs[:1], executor)
        if passing_seeds(recipe):
            run_jobs(jobs[1:], executor, num_workers=num_workers)
    return folder, equilibrium_table(recipe)


def describe_equilibrium(recipe: MessageRecipe) -> str:
    """
    Check a sweep, and describe its levels, its seeds and its progress in a few lines. Nothing is written.

    Raises `ValueError` if the recipe has mistakes or sets noise rates, or the folder belongs to another sweep.
    """
    levels = levels_of(recipe)
    _check(recipe)
    make_players(recipe, open_world(replace(recipe, controls=[])), recipe.seed)
    todo = [epsilon for epsilon in levels if not result_file(recipe, epsilon).exists()]
    gate = "not known yet; the clean games come first"
    if result_file(recipe, 0.0).exists():
        gate = f"passed with the seeds {', '.join(map(str, passing_seeds(recipe))) or 'none'}"
    about, num_finished = "", len(levels) - len(todo)
    if todo and num_finished:
        seconds = seconds_of(recipe, levels)["all"] / num_finished * len(todo)
        about = f", about {show_seconds(seconds)} of one worker, as the finished ones took"
    return "\n".join(
        [
            f"Sweep    {equilibrium_folder(recipe).root}",
            f"Levels   epsilon {', '.join(f'{epsilon:g}' for epsilon in levels)}",
            (
                f"Seeds    {', '.join(map(str, recipe.equilibrium.seeds))},"
                f" {'together' if is_stackable(recipe) else 'one by one'}"
            ),
            f"Gate     {gate}",
            f"To play  {len(todo)} of {len(levels)} levels{about}",
        ]
    )


def play_level(recipe: MessageRecipe, epsilon: float) -> str:
    """
    Play and judge the games of a level, and write their figures. The clean level also plays the games without
    messages.

    Returns: the mean accuracy and the duration, for the log.
    """
    loaded, started = open_world(replace(recipe, controls=[])), time.monotonic()
    seeds = passing_seeds(recipe) if epsilon else recipe.equilibrium.seeds
    noisy = with_noise(recipe, epsilon)
    games = train_seeds(noisy, loaded, GAME, seeds)
    trained = time.monotonic() - started
    results = {
        str(seed): _judged(replace(noisy, seed=seed), loaded, epsilon, game) for seed, game in zip(seeds, games)
    }
    if not epsilon:
        for seed, game in zip(seeds, train_seeds(recipe, loaded, WITHOUT, seeds)):
            results[str(seed)][WITHOUT] = judge_game(game, loaded, replace(noisy, seed=seed)).to_dict()
    seconds = {"training": trained, "all": time.monotonic() - started}
    write_json(result_file(recipe, epsilon), {"epsilon": epsilon, "seconds": seconds, "seeds": results})
    accuracy = np.mean([values[GAME]["accuracy"]["value"] for values in results.values()])
    return f"mean accuracy {accuracy:.3f} in {seconds['all']:.0f} s"


def _judged(recipe: MessageRecipe, loaded: LoadedWorld, epsilon: float, game: MessageGame) -> dict[str, Any]:
    """Judge a game by the recipe with its own seed and noise, and compare it with the clean game of the seed."""
    weights = equilibrium_folder(recipe).root / "clean" / f"seed-{recipe.seed}.pt"
    if not epsilon:
        with replacing(weights) as path:
            torch.save(game.state_dict(), path)
    clean = copy.deepcopy(game)
    clean.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    clean.eval()
    decisions = [
        scores_of(player, loaded.test) >= acceptance_threshold(with_noise(recipe, rate))
        for player, rate in ((game, epsilon), (clean, 0.0))
    ]
    figures = judge_game(game, loaded, recipe).figures
    figures["decision_change"] = Figure(
        float((decisions[0] != decisions[1]).double().mean()), None, None, len(decisions[0])
    )
    figures["parameter_distance"] = Figure(relative_distance(game, clean), None, None, 1)
    return {GAME: MessageJudgement(figures).to_dict()}


def with_noise(recipe: MessageRecipe, epsilon: float) -> MessageRecipe:
    """Return the recipe with symmetric noise of rate `epsilon`; resampling and schedule stay those of the recipe."""
    noise = LabelNoise(epsilon=epsilon, resample=recipe.noise.resample, schedule=recipe.noise.schedule)
    return replace(recipe, noise=noise)


def train_seeds(
    recipe: MessageRecipe, loaded: LoadedWorld, source: MessageSource, seeds: Sequence[int]
) -> list[MessageGame]:
    """
    Train a game for several seeds.

    Args:
        recipe: The recipe; its own seed is not used. The games are trained together if [`is_stackable`].
        source: What the verifier sees as the message.
    Returns: the trained games, one per seed; those that were trained together are on the CPU.
    Raises `FloatingPointError` if a loss is not finite.
    """
    if not is_stackable(recipe):
        return [_train_alone(replace(recipe, seed=seed), loaded, source) for seed in seeds]
    args = training_arguments(recipe, Path("unused"), source)
    games = [MessageGame(*make_players(recipe, loaded, seed), args.rules) for seed in seeds]
    for _ in train_stacked(games, seeds, loaded.train, args):
        pass  # the losses of a round
    return [game.eval() for game in games]


def is_stackable(recipe: MessageRecipe) -> bool:
    """
    Whether the games of a recipe can be trained together, on the CPU, and the recipe wants it.

    Encoders of texts are trained alone: they keep a GPU busy by themselves.
    """
    training = recipe.training
    has_equal_steps = training.prover_steps != "best_response" and training.leader_gradient != "unrolled"
    reads_texts = "transformer" in (recipe.prover.kind, recipe.verifier.kind)
    return recipe.equilibrium.vectorized and has_equal_steps and not reads_texts


def _train_alone(recipe: MessageRecipe, loaded: LoadedWorld, source: MessageSource) -> MessageGame:
    with tempfile.TemporaryDirectory() as folder:
        quiet = replace(recipe, save_steps=0, report_to=[])
        trainer = make_message_trainer(quiet, loaded, Path(folder), source)
        trainer.train()
        return trainer.game.eval()


@dataclass(frozen=True)
class _LevelResult:
    """Result of a noise level: seconds of the training and of everything, and figures by seed and message."""

    seconds: dict[Literal["training", "all"], float]
    seeds: dict[str, dict[str, dict[str, Figure]]]


def _read_level(recipe: MessageRecipe, epsilon: float) -> _LevelResult:
    return read_json(result_file(recipe, epsilon), _LevelResult)


def passing_seeds(recipe: MessageRecipe) -> list[int]:
    """Return the seeds whose clean game passes the gate."""
    found = _read_level(recipe, 0.0).seeds
    judged = {
        int(seed): [MessageJudgement(values[source]) for source in (GAME, WITHOUT)] for seed, values in found.items()
    }
    return [seed for seed in recipe.equilibrium.seeds if seed in judged and passes_gate(*judged[seed])]


def equilibrium_table(recipe: MessageRecipe) -> pd.DataFrame:
    """
    Return a row per finished level and seed that passes the gate, and for each clean game that fails it.

    Returns: `epsilon`, `seed`, `passes`, a column for each figure of a [`MessageJudgement`], `loss_change` (clean loss
        less that of the seed's clean game), `decision_change`, `parameter_distance`, `chance` (see
        [`~pvg_hf.experimental.messages.judge.chance_of`]), and `accuracy_without` of clean games.
    """
    rows, passing = [], passing_seeds(recipe)
    for epsilon in levels_of(recipe):
        if not result_file(recipe, epsilon).exists():
            continue
        for seed, values in _read_level(recipe, epsilon).seeds.items():
            judged = MessageJudgement(values[GAME])
            row = {"epsilon": epsilon, "seed": int(seed), "passes": int(seed) in passing}
            row |= {name: figure.value for name, figure in judged.figures.items()} | {"chance": chance_of(judged)}
            if WITHOUT in values:
                row["accuracy_without"] = values[WITHOUT]["accuracy"].value
            rows.append(row)
    table = pd.DataFrame(rows).sort_values(["epsilon", "seed"], ignore_index=True)
    clean = table[table["epsilon"] == 0].set_index("seed")["clean_loss"]
    return table.assign(loss_change=table["clean_loss"] - table["seed"].map(clean))


def _check(recipe: MessageRecipe) -> None:
    """
    Check that a sweep can be run in its folder.

    Raises `ValueError` if the recipe sets noise rates, or another sweep was started in the folder.
    """
    if recipe.noise.rho0 or recipe.noise.rho1:
        raise ValueError("`noise` sets a rate, but `equilibrium.levels` varies it: leave the rate out.")
    if result_file(recipe, 0.0).exists():  # else nothing is finished, and the recipe may still change
        folder = equilibrium_folder(recipe)
        before = load_message_recipe(folder.recipe).to_dict()
        advice = "Only levels may be added or removed."
        check_same_settings(f"The sweep `{folder.root.name}`", before, recipe.to_dict(), free=_FREE, advice=advice)


def seconds_of(recipe: MessageRecipe, levels: Sequence[float]) -> dict[str, float]:
    """Return the seconds that levels took in all: `training`, and `all` with judging."""
    found = [_read_level(recipe, epsilon).seconds for epsilon in levels if result_file(recipe, epsilon).exists()]
    return {name: sum(seconds[name] for seconds in found) for name in ("training", "all")}
