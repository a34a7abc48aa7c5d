"""Trains the game of a recipe for several seeds: together where that is possible, otherwise one after the other."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from pvg_hf.config.message_recipe import LabelNoise, MessageRecipe, MessageSource
from pvg_hf.messages.building import LoadedWorld, make_players, training_arguments
from pvg_hf.messages.game_modules import MessageGame
from pvg_hf.messages.message_run import make_message_trainer
from pvg_hf.messages.vectorized import StackedCell, train_stacked


def recipe_of(recipe: MessageRecipe, seed: int, epsilon: float = 0.0) -> MessageRecipe:
    """Return the recipe of one seed, with symmetric noise of rate `epsilon`; resampling and schedule are the recipe's."""
    noise = LabelNoise(epsilon=epsilon or None, resample=recipe.noise.resample, schedule=recipe.noise.schedule)
    return replace(recipe, seed=seed, noise=noise, save_steps=0)


def train_seeds(
    recipe: MessageRecipe,
    loaded: LoadedWorld,
    source: MessageSource,
    seeds: Sequence[int],
    epsilon: float = 0.0,
    *,
    progress: bool = False,
) -> list[MessageGame]:
    """
    Train a game for several seeds.

    Args:
        recipe ([`~pvg_hf.config.message_recipe.MessageRecipe`]):
            The recipe. With `equilibrium.vectorized` the games are trained together, unless their steps differ.
        loaded ([`~pvg_hf.messages.building.LoadedWorld`]):
            Its world.
        source (`str`):
            What the verifier sees as the message.
        seeds (`Sequence[int]`):
            The seeds.
        epsilon (`float`, *optional*, defaults to `0.0`):
            Rate of flipped labels.
        progress (`bool`, *optional*, defaults to `False`):
            Whether to show a progress bar.

    Raises:
        FloatingPointError: if a loss is not finite.
    """
    if not is_stackable(recipe):
        return [_train_alone(recipe_of(recipe, seed, epsilon), loaded, source) for seed in seeds]
    args = training_arguments(recipe_of(recipe, seeds[0], epsilon), Path("unused"), source)
    games = [MessageGame(*make_players(recipe, loaded, seed), args.rules) for seed in seeds]
    cells = [StackedCell(seed, epsilon) for seed in seeds]
    rounds = train_stacked(games, cells, loaded.train, args)
    for _ in tqdm(rounds, total=recipe.training.num_rounds, unit="round", disable=not progress):
        pass
    return [game.eval() for game in games]


def is_stackable(recipe: MessageRecipe) -> bool:
    """Whether games of a recipe can be trained together, and the recipe wants it."""
    training = recipe.training
    has_equal_steps = training.prover_steps != "best_response" and training.leader_gradient != "unrolled"
    return recipe.equilibrium.vectorized and has_equal_steps


def _train_alone(recipe: MessageRecipe, loaded: LoadedWorld, source: MessageSource) -> MessageGame:
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_message_trainer(recipe, loaded, Path(folder), source)
        trainer.train()
        return trainer.game.cpu().eval()
