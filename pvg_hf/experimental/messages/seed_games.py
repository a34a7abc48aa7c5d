"""Trains the game of a recipe for several seeds: together where that is possible, otherwise one after the other."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from pvg_hf.experimental.messages.building import LoadedWorld, make_players, training_arguments
from pvg_hf.experimental.messages.game_modules import MessageGame
from pvg_hf.experimental.messages.recipe import LabelNoise, MessageRecipe, MessageSource
from pvg_hf.experimental.messages.run import make_message_trainer
from pvg_hf.experimental.messages.vectorized import train_stacked


def with_noise(recipe: MessageRecipe, epsilon: float) -> MessageRecipe:
    """Return the recipe with symmetric noise of rate `epsilon`; resampling and schedule stay those of the recipe."""
    noise = LabelNoise(epsilon=epsilon, resample=recipe.noise.resample, schedule=recipe.noise.schedule)
    return replace(recipe, noise=noise)


def train_seeds(
    recipe: MessageRecipe,
    loaded: LoadedWorld,
    source: MessageSource,
    seeds: Sequence[int],
    *,
    progress: bool = False,
) -> list[MessageGame]:
    """
    Train a game for several seeds.

    Args:
        recipe ([`~pvg_hf.experimental.messages.recipe.MessageRecipe`]):
            The recipe; its own seed is not used. The games are trained together if [`is_stackable`].
        loaded ([`~pvg_hf.experimental.messages.building.LoadedWorld`]):
            Its world.
        source (`str`):
            What the verifier sees as the message.
        seeds (`Sequence[int]`):
            The seeds.
        progress (`bool`, *optional*, defaults to `False`):
            Whether to show a progress bar.

    Returns:
        `list[MessageGame]`: the trained games, one per seed; those that were trained together are on the CPU.

    Raises:
        FloatingPointError: if a loss is not finite.
    """
    if not is_stackable(recipe):
        bar = tqdm(seeds, unit="game", disable=not progress)
        return [_train_alone(replace(recipe, seed=seed), loaded, source) for seed in bar]
    args = training_arguments(recipe, Path("unused"), source)
    games = [MessageGame(*make_players(recipe, loaded, seed), args.rules) for seed in seeds]
    rounds = train_stacked(games, seeds, loaded.train, args)
    for _ in tqdm(rounds, total=recipe.training.num_rounds, unit="round", disable=not progress):
        pass
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
