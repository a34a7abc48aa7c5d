"""Finds all mistakes of a recipe that can be found before anything is played."""

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import torch

from pvg_hf.config import Recipe, RecipeError
from pvg_hf.config.sections import TRACKERS
from pvg_hf.core.hub_access import find_dataset_refusal
from pvg_hf.data.imports import imported_rows
from pvg_hf.data.mixture import weights_for
from pvg_hf.data.problems import GameProblems
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.interrupt import StopRequest
from pvg_hf.preflight.extensions import check_extensions, check_task
from pvg_hf.preflight.machine import check_generation, check_hub, check_sharding
from pvg_hf.preflight.noise import check_noise
from pvg_hf.preflight.players import check_player, check_shared_base
from pvg_hf.preflight.refusals import refusals
from pvg_hf.preflight.trainers import (
    check_corrections,
    check_critic,
    check_environments,
    check_prover_trainer,
    check_score_verifier,
    check_self_evaluation,
    check_verifier_trainer,
)
from pvg_hf.run.folder import RunFolder
from pvg_hf.run.schedule import PhaseKey

# Sections that hold for the whole game, so that a single round cannot override them.
GAME_WIDE_SECTIONS = (
    "name",
    "seed",
    "num_rounds",
    "output_dir",
    "device",
    "resume_from_hub",
    "task",
    "split",
    "bootstrap",
    "hub",
    "sweep",
    "rounds",
)

_MANY_ROUNDS = 100  # check no more rounds than that in full: each has a mixture of all earlier ones

GAME_WIDE_PLAYER_KEYS = ("scratch", "warmup")


def refuse_mistakes(recipe: Recipe, world: GameProblems) -> None:
    """
    Refuse a recipe with mistakes.

    Raises:
        RecipeError: if [`check_recipe`] finds any; the message lists all of them.
    """
    mistakes = check_recipe(recipe, world)
    if mistakes:
        raise RecipeError(list_mistakes(mistakes))


def list_mistakes(mistakes: list[str]) -> str:
    """Format mistakes as one message."""
    return "\n".join([f"The recipe has {len(mistakes)} mistake(s):", *(f"- {mistake}" for mistake in mistakes)])


def check_recipe(recipe: Recipe, world: GameProblems | None, *, planned_bfloat16: bool | None = None) -> list[str]:
    """
    Find all settings that would end the game later, or that would not do what they say.

    Nothing is written, and no model is downloaded.

    Args:
        recipe ([`Recipe`]):
            A recipe from `load_recipe`, which has checked the range of each field.
        world ([`GameProblems`], *optional*):
            Its task and problems; without them, checks that need them are skipped.
        planned_bfloat16 (`bool`, *optional*):
            For a plan of another machine: whether its GPU computes in bfloat16. Packages missing on this machine are then no
            mistakes.

    Returns:
        `list[str]`: all mistakes; empty if there are none.
    """
    is_elsewhere = planned_bfloat16 is not None
    mistakes = [] if is_elsewhere else list(_check_machine(recipe))
    mistakes += [*_check_trackers(recipe, is_elsewhere=is_elsewhere), *check_hub(recipe)]
    mistakes += _check_overrides(recipe)
    mistakes += [*check_task(recipe, world), *_check_import(recipe, world)] if world is not None else []
    known: set[str] = set()  # a mistake that several rounds share is reported once
    refused: set[str] = set()
    for round_index in _rounds_to_check(recipe):
        place = f"In round {round_index}: " if round_index in recipe.rounds else ""
        found = [
            *_check_settings(recipe, round_index, world, planned_bfloat16),
            *_check_sequence(recipe, round_index, refused),
        ]
        mistakes += [place + mistake for mistake in found if mistake not in known]
        known.update(found)
    return mistakes


def _rounds_to_check(recipe: Recipe) -> list[int]:
    """Rounds to check: all, or in a very long game the first ones, the last, and each with or after overrides."""
    number = recipe.num_rounds
    if number <= _MANY_ROUNDS:
        return list(range(number))
    odd = {index + offset for index in recipe.rounds for offset in (0, 1)}
    return sorted({*range(_MANY_ROUNDS), *(index for index in odd if index < number), number - 1})


def _check_settings(
    recipe: Recipe, round_index: int, world: GameProblems | None, planned_bfloat16: bool | None
) -> Iterator[str]:
    """List mistakes in a round's sections."""
    # Rounds without overrides have equal sections, so that one of them is enough.
    if round_index not in recipe.rounds and any(earlier not in recipe.rounds for earlier in range(round_index)):
        return
    of_round = recipe.for_round(round_index)
    context = phase_context(of_round, PhaseKey("prover", round_index), world)
    context = replace(context, planned_bfloat16=planned_bfloat16)
    yield from check_player(context, "prover")
    yield from check_player(context, "verifier")
    yield from check_shared_base(context)
    yield from check_generation(context)
    yield from check_sharding(context)
    yield from check_critic(context)
    yield from check_extensions(context)
    of_verifier = replace(context, phase=PhaseKey("verifier", round_index))
    noise = list(check_noise(of_verifier))
    if not (noise and of_round.noise.checker):  # the trainer's settings need the checker's rates
        yield from check_prover_trainer(context)
    yield from check_self_evaluation(context)
    check_trainer = check_score_verifier if of_round.verifier.is_generative else check_verifier_trainer
    yield from noise or [*check_corrections(context), *check_trainer(of_verifier)]


def phase_context(recipe: Recipe, phase: PhaseKey, world: GameProblems | None) -> PhaseContext:
    """Make the context of a phase without touching any file."""
    folder = RunFolder.of(recipe)
    return PhaseContext(recipe, folder, phase, world, StopRequest())


def _check_machine(recipe: Recipe) -> Iterator[str]:
    place = Path(recipe.output_dir) / recipe.name
    above = next(path for path in (place, *place.absolute().parents) if path.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        reason = "cannot be written to" if above.is_dir() else "is not a folder"
        yield f"`output_dir` is `{recipe.output_dir}`, but {above} {reason}."
    if recipe.device == "cuda" and not torch.cuda.is_available():
        yield "`device` is `cuda`, but torch finds no GPU here; `auto` uses one if there is one."
    num_gpus = torch.cuda.device_count()
    if recipe.device != "cpu" and num_gpus > 1 and os.environ.get("WORLD_SIZE", "1") == "1":
        yield (
            f"One process sees {num_gpus} GPUs, and the trainers would split each of its batches over all of them: restrict it "
            "to one (`CUDA_VISIBLE_DEVICES=0`), or start a process for each (`accelerate launch --config_file "
            f"recipes/accelerate/multi_gpu.yaml --num_processes {num_gpus}`)."
        )


def _check_trackers(recipe: Recipe, *, is_elsewhere: bool) -> Iterator[str]:
    for name in recipe.logging.report_to:
        if name not in TRACKERS:
            yield f"`logging.report_to` has `{name}`; known are {', '.join(TRACKERS)}."
        elif find_spec(name) is None and not is_elsewhere:
            yield f"`logging.report_to` has `{name}`, which is not installed: `pip install {name}`."


def _check_overrides(recipe: Recipe) -> Iterator[str]:
    for round_index, sections in recipe.rounds.items():
        fixed = [name for name in GAME_WIDE_SECTIONS if name in sections]
        fixed += [
            f"{player}.{name}"
            for player in ("prover", "verifier")
            for name in GAME_WIDE_PLAYER_KEYS
            if name in (sections.get(player) or {})
        ]
        for name in fixed:
            yield f"`rounds.{round_index}` overrides `{name}`, which holds for the whole game; set it at the top level."


def _check_import(recipe: Recipe, world: GameProblems) -> list[str]:
    """List mistakes in `bootstrap.import_from`: a file's columns and first matching row; of a dataset, only that it exists."""
    bootstrap = recipe.bootstrap
    source = bootstrap.import_from
    if source is None:
        return []
    if not (source.endswith((".jsonl", ".parquet")) or Path(source).exists()):
        refusal = find_dataset_refusal(source, bootstrap.import_revision)
        return [] if refusal is None else [f"`bootstrap.import_from` is `{source}`, which cannot be read: {refusal}."]
    return refusals("`bootstrap.import_from`", partial(next, imported_rows(bootstrap, world.task, world.parts), None))


def _check_sequence(recipe: Recipe, round_index: int, refused: set[str]) -> Iterator[str]:
    """
    List mistakes that depend on the round's place in the game: its mixture of earlier rounds, and its initial weights.

    A custom mixture that fails is added to `refused`, and is not reported again in later rounds.
    """
    data = recipe.for_round(round_index).data
    weigh = partial(weights_for, data, round_index)
    unweighable = refusals("`data.mixture`", weigh)
    if unweighable and ":" in data.mixture:
        unweighable = [] if data.mixture in refused else unweighable
        refused.add(data.mixture)
    yield from unweighable or check_environments(
        phase_context(recipe.for_round(round_index), PhaseKey("verifier", round_index), None)
    )
    if round_index > 0:
        yield from _check_going_on(recipe.for_round(round_index - 1), recipe.for_round(round_index), round_index)


def _check_going_on(before: Recipe, now: Recipe, round_index: int) -> Iterator[str]:
    """List settings of a round that do not fit the weights of the previous round from which it starts."""
    verifiers, provers = (now.verifier, before.verifier), (now.prover, before.prover)
    is_other_kind = len({verifier.kind for verifier in verifiers}) > 1
    is_other_adapter = now.verifier.is_generative and now.verifier.lora != before.verifier.lora
    if now.verifier.init != "full" and (is_other_kind or is_other_adapter):
        yield (
            f"`verifier.init` is `{now.verifier.init}`, but round {round_index - 1} has another `verifier.kind` or other "
            f"`verifier.lora`, so that its weights do not fit round {round_index}."
        )
    is_other_shape = (
        len({prover.roles == "separate" for prover in provers}) > 1 or now.prover.lora != before.prover.lora
    )
    if now.prover.init == "previous" and is_other_shape:
        yield (
            f"`prover.init` is `previous`, but round {round_index - 1} has other `prover.lora` or `prover.roles`, so that "
            f"its weights do not fit round {round_index}."
        )
