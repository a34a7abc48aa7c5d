"""The plan of a message game: its sizes, and the time that it takes on this machine."""

import tempfile
import time
from pathlib import Path

from pvg_hf.config.message_recipe import MessageRecipe
from pvg_hf.core.units import show_count, show_seconds
from pvg_hf.messages.building import make_players, message_width, open_world
from pvg_hf.messages.message_folder import GAME, MessageRunFolder
from pvg_hf.messages.message_run import check_same_message_recipe, make_message_trainer

_TIMED_ROUNDS = 2


def describe_message_plan(recipe: MessageRecipe) -> str:
    """
    Check a recipe, and describe its games and the expected time, by playing two rounds. The run's folder is not changed.

    Raises:
        ValueError: if the recipe has mistakes or differs from the one that the run was started with.
    """
    folder = MessageRunFolder.of(recipe)
    check_same_message_recipe(recipe, folder)
    loaded = open_world(recipe)
    players = make_players(recipe, loaded, recipe.seed)
    sizes = [show_count(sum(parameter.numel() for parameter in player.parameters())) for player in players]
    todo = [source for source in folder.sources(recipe) if not folder.game(source).exists()]
    with tempfile.TemporaryDirectory() as temporary:
        trainer = make_message_trainer(_short(recipe), loaded, Path(temporary), GAME)
        started = time.monotonic()
        trainer.train()
        per_round = (time.monotonic() - started) / _TIMED_ROUNDS
    seconds = len(todo) * recipe.training.num_rounds * per_round
    messages = f"{message_width(recipe, loaded.world)} entries, {recipe.messages.form}"
    return "\n".join(
        [
            f"Run      {folder.root}",
            f"World    {recipe.world.name}: {len(loaded.train):,} training and {len(loaded.test):,} test problems",
            f"Players  prover {recipe.prover.kind} with {sizes[0]} parameters, verifier {recipe.verifier.kind} with {sizes[1]}",
            f"Messages {messages}",
            f"Games    {', '.join(folder.sources(recipe))}; to play: {', '.join(todo) or 'none'}",
            f"Rounds   {recipe.training.num_rounds}, about {show_seconds(seconds)} in all (rough: a control takes less)",
        ]
    )


def _short(recipe: MessageRecipe) -> MessageRecipe:
    values = recipe.to_dict()
    values["training"]["num_rounds"] = _TIMED_ROUNDS
    return type(recipe)(**{**values, "save_steps": 0, "report_to": []})
