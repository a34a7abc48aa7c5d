"""
Plays a message game of a recipe into a folder: the game, its controls, the judgement and the report; or describes its
plan.
"""

import logging
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from accelerate import PartialState
from transformers import TrainerCallback
from transformers.trainer_callback import PrinterCallback

from pvg_hf.core.files import remove, sync_tree, write_json, write_json_lines, write_text
from pvg_hf.core.integrity import RECIPE_FILE
from pvg_hf.core.units import show_count, show_seconds
from pvg_hf.core.versions import installed_versions
from pvg_hf.experimental.messages.building import (
    LoadedWorld,
    make_players,
    message_width,
    open_world,
    training_arguments,
)
from pvg_hf.experimental.messages.folder import GAME, MessageRunFolder
from pvg_hf.experimental.messages.game_modules import PLAYERS, MessageGame
from pvg_hf.experimental.messages.judge import MessageJudgement, judge_game
from pvg_hf.experimental.messages.recipe import MessageRecipe, MessageSource, load_message_recipe
from pvg_hf.experimental.messages.report import write_message_report
from pvg_hf.experimental.messages.stackelberg_trainer import StackelbergTrainer
from pvg_hf.run.environment import git_revision
from pvg_hf.run.lock import locked
from pvg_hf.run.resume import check_same_settings

logger = logging.getLogger(__name__)

# Keys that may change when a run is resumed.
_FREE = ("output_dir", "save_steps", "report_to", "equilibrium", "judging", "controls")


def play_messages(recipe: MessageRecipe, *, progress: bool = False) -> MessageRunFolder:
    """
    Play a message game and its controls, judge them and write the report. Finished games are not played again, and an
    unfinished one resumes from its last checkpoint.

    Raises `ValueError` if the recipe has mistakes, differs from the one that the run was started with, or if another
        process plays the run.
    Raises `FloatingPointError` if a loss is not finite.
    """
    folder, processes = MessageRunFolder.of(recipe), PartialState()
    check_same_message_recipe(recipe, folder)
    loaded = open_world(recipe)
    with locked(folder.root, is_main=processes.is_main_process):
        if processes.is_main_process:
            write_text(folder.recipe, yaml.safe_dump(recipe.to_dict(), sort_keys=False))
            write_json(folder.environment, _describe_environment())
        for source in folder.sources(recipe):
            if not folder.game(source).exists():
                _train(recipe, loaded, folder, source, progress=progress)
        if processes.is_main_process:
            judge_run(recipe, loaded, folder)
            logger.info("Report: %s", write_message_report(folder.root))
        processes.wait_for_everyone()
    return folder


def check_same_message_recipe(recipe: MessageRecipe, folder: MessageRunFolder) -> None:
    """
    Check that a folder is new or was started with the same recipe. If nothing was played in it yet, the recipe may
    still change.

    Raises `ValueError` listing the differences, or if the folder belongs to a run of another kind.
    """
    if (folder.root / RECIPE_FILE).exists():
        raise ValueError(
            f"{folder.root} is a run of another kind, with a {RECIPE_FILE}. Give this one another `name`."
        )
    if not folder.is_begun:
        return
    before = load_message_recipe(folder.recipe).to_dict()
    check_same_settings(f"The run `{recipe.name}`", before, recipe.to_dict(), free=_FREE)


def _train(
    recipe: MessageRecipe, loaded: LoadedWorld, folder: MessageRunFolder, source: MessageSource, *, progress: bool
) -> None:
    trainer = make_message_trainer(recipe, loaded, folder.training(source), source, progress=progress)
    checkpoint = folder.last_checkpoint(source)
    steps = trainer.args.max_steps
    begun = "" if checkpoint is None else f", from {checkpoint.name}"
    logger.info("Game `%s`: %d steps in %d rounds%s", source, steps, recipe.training.num_rounds, begun)
    trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    figures = trainer.evaluate()
    logger.info(
        "Game `%s`: accuracy %.3f, completeness %.3f, soundness %.3f, in %s",
        source,
        *(figures[f"eval_{name}"] for name in ("accuracy", "completeness", "soundness")),
        show_seconds(trainer.state.log_history[-2]["train_runtime"]),
    )
    if trainer.is_world_process_zero():
        _finish(trainer, folder, source)
    trainer.accelerator.wait_for_everyone()


def make_message_trainer(
    recipe: MessageRecipe, loaded: LoadedWorld, folder: Path, source: MessageSource, *, progress: bool = False
) -> StackelbergTrainer:
    """Build the trainer of a game."""
    trainer = StackelbergTrainer(
        *make_players(recipe, loaded, recipe.seed),
        args=training_arguments(recipe, folder, source, progress=progress),
        train_dataset=loaded.train,
        eval_dataset=loaded.test,
        processing_class=loaded.tokenizer,
    )
    trainer.remove_callback(PrinterCallback)  # without a progress bar, it would print a line per entry of the log
    return trainer


def _finish(trainer: StackelbergTrainer, folder: MessageRunFolder, source: str) -> None:
    """Write a game's players, log and TensorBoard files, which appear by one rename, and remove its checkpoints."""
    target = folder.game(source)
    partial = target.with_name(f".{target.name}.partial")
    remove(partial)
    trainer.game.save_players(partial)
    write_json_lines(partial / "log.jsonl", trainer.state.log_history)
    tracked = folder.training(source) / "runs"  # where transformers' callback writes
    if tracked.exists():
        tracked.rename(partial / "runs")
    sync_tree(partial)
    partial.rename(target)
    remove(folder.training(source))


def judge_run(recipe: MessageRecipe, loaded: LoadedWorld, folder: MessageRunFolder) -> dict[str, MessageJudgement]:
    """Judge all games of a run and write `judgement.json`."""
    judged = {source: judge_game(game, loaded, recipe) for source, game in load_games(recipe, loaded, folder)}
    write_json(folder.judgement, {source: judgement.to_dict() for source, judgement in judged.items()})
    return judged


def load_games(
    recipe: MessageRecipe, loaded: LoadedWorld, folder: MessageRunFolder
) -> Iterator[tuple[str, MessageGame]]:
    """Yield the finished games of a run on its device, by what the verifier sees as the message."""
    classes = [type(player) for player in make_players(recipe, loaded, recipe.seed)]
    for source in folder.sources(recipe):
        players = [
            player_class.from_pretrained(folder.game(source) / name) for player_class, name in zip(classes, PLAYERS)
        ]
        args = training_arguments(recipe, folder.training(source), source)
        yield source, MessageGame(*players, args.rules).to(args.device).eval()


def _describe_environment() -> dict[str, Any]:
    packages = ("torch", "transformers", "accelerate", "numpy")
    return {"git_revision": git_revision(), "versions": installed_versions(packages)}


_TIMED_ROUNDS = 2
_MAX_SECONDS = 30.0


def describe_message_plan(recipe: MessageRecipe) -> str:
    """
    Check a recipe, and describe its games and the expected time, by playing up to two rounds if there is anything to
    play. The run's folder is not changed.

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
            (
                f"Players  prover {recipe.prover.kind} with {sizes[0]} parameters, verifier {recipe.verifier.kind}"
                f" with {sizes[1]}"
            ),
            f"Messages {messages}",
            f"Games    {', '.join(folder.sources(recipe))}; to play: {', '.join(todo) or 'none'}",
            (
                f"Rounds   {recipe.training.num_rounds}; to play: {'at most ' if is_bound else ''}{steps:,}"
                f" steps{time_left}"
            ),
        ]
    )


def _seconds_per_step(recipe: MessageRecipe, loaded: LoadedWorld) -> float:
    """
    Play up to two rounds, and return the mean duration of their steps after the first one, which includes the start.
    """
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
