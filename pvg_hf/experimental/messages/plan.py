"""The plan of a message game: its sizes, and the time that it takes on this machine."""

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from transformers import TrainerCallback

from pvg_hf.core.units import show_count, show_seconds
from pvg_hf.experimental.messages.building import (
    LoadedWorld,
    make_players,
    message_width,
    open_world,
    training_arguments,
)
from pvg_hf.experimental.messages.folder import GAME, MessageRunFolder
from pvg_hf.experimental.messages.recipe import MessageRecipe
from pvg_hf.experimental.messages.run import check_same_message_recipe, make_message_trainer

_TIMED_ROUNDS = 2
_MAX_SECONDS = 30.0


def describe_message_plan(recipe: MessageRecipe) -> str:
    """
    Check a recipe, and describe its games and the expected time, by playing up to two rounds if there is anything to play. The run's
    folder is not changed.

    Raises `ValueError` if the recipe has mistakes or differs from the one that the run was started with.
    """
    folder = MessageRunFolder.of(recipe)
    check_same_message_recipe(recipe, folder)
    loaded = open_world(recipe)
    players = make_players(recipe, loaded, recipe.seed)
    sizes = [show_count(sum(parameter.numel() for parameter in player.parameters())) for player in players]
    todo = [source for source in folder.sources(recipe) if not folder.game(source).exists()]
    steps = sum(training_arguments(recipe, folder.training(source), source).max_steps for source in todo)
    time_left = (
        f", about {show_seconds(steps * _seconds_per_step(recipe, loaded))} (rough, without judging)" if todo else ""
    )
    is_bound = bool(todo) and recipe.training.prover_steps == "best_response"
    messages = f"{message_width(recipe, loaded.world)} entries, {recipe.messages.form}"
    return "\n".join(
        [
            f"Run      {folder.root}",
            f"World    {recipe.world.name}: {len(loaded.train):,} training and {len(loaded.test):,} test problems",
            f"Players  prover {recipe.prover.kind} with {sizes[0]} parameters, verifier {recipe.verifier.kind} with {sizes[1]}",
            f"Messages {messages}",
            f"Games    {', '.join(folder.sources(recipe))}; to play: {', '.join(todo) or 'none'}",
            f"Rounds   {recipe.training.num_rounds}; to play: {'at most ' if is_bound else ''}{steps:,} steps{time_left}",
        ]
    )


def _seconds_per_step(recipe: MessageRecipe, loaded: LoadedWorld) -> float:
    """Play up to two rounds, and return the mean duration of their steps after the first one, which includes the start."""
    training = replace(recipe.training, num_rounds=_TIMED_ROUNDS)
    short = replace(recipe, training=training, save_steps=0, report_to=[])
    times = _StepTimes()
    with tempfile.TemporaryDirectory() as temporary:
        trainer = make_message_trainer(short, loaded, Path(temporary), GAME)
        trainer.add_callback(times)
        trainer.train()
    return (times.ends[-1] - times.ends[0]) / (len(times.ends) - 1)


class _StepTimes(TrainerCallback):
    """Records when each step ends, and stops a training that takes too long for a plan."""

    def __init__(self):
        self.ends: list[float] = []

    def on_step_end(self, args, state, control, **kwargs):
        self.ends.append(time.monotonic())
        control.should_training_stop |= len(self.ends) > 1 and self.ends[-1] - self.ends[0] > _MAX_SECONDS
        return control
