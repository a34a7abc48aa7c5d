"""Finds all mistakes of a recipe that can be found before anything is played."""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import torch

from pvg_hf.check.custom_code import check_extensions, check_task, read_signal
from pvg_hf.check.disk import disk_bytes
from pvg_hf.check.loading import check_player, check_shared_base, check_warmup_lengths
from pvg_hf.check.machine import check_generation, check_hub, check_sharding
from pvg_hf.check.noise_settings import check_checker_settings, check_label_rates, check_noise
from pvg_hf.check.refusals import refusals
from pvg_hf.check.trainer_settings import (
    check_corrections,
    check_critic,
    check_invariance_settings,
    check_num_prompts,
    check_prover_trainer,
    check_self_evaluation,
    check_stop_rule,
    check_warmups,
)
from pvg_hf.config import Recipe, RecipeError
from pvg_hf.config.sections import TRACKERS
from pvg_hf.core.hub_access import find_dataset_refusal
from pvg_hf.core.project import install_extra
from pvg_hf.core.units import show_bytes
from pvg_hf.data.imports import imported_rows
from pvg_hf.data.label_rates import label_rates, stated_rates
from pvg_hf.data.mixture import weights_for
from pvg_hf.data.problems import GameProblems
from pvg_hf.models.hardware import Hardware
from pvg_hf.run.environment import script_line
from pvg_hf.run.layout import RunFolder
from pvg_hf.tasks.base import Problem

# Sections that hold for the whole game, so that a single round cannot override them.
GAME_WIDE_SECTIONS = (
    "name",
    "seed",
    "num_rounds",
    "output_dir",
    "device",
    "resume_from_hub",
    "split",
    "bootstrap",
    "hub",
    "sweep",
    "arms",
    "attack",
    "rounds",
)

_MANY_ROUNDS = 100  # check no more rounds than that in full: each has a mixture of all earlier ones

GAME_WIDE_PLAYER_KEYS = ("scratch", "warmup")

ROUND_TASK_KEYS = ("sneaky_sees", "honest_source")
"""The only keys of `task` that a single round can override."""


def refuse_mistakes(recipe: Recipe, problems: GameProblems) -> None:
    """
    Refuse a recipe with mistakes.

    Raises:
        RecipeError: if [`check_recipe`] finds any; the message lists all of them.
    """
    mistakes = check_recipe(recipe, problems)
    if mistakes:
        raise RecipeError(list_mistakes(mistakes))


def list_mistakes(mistakes: list[str]) -> str:
    """Format mistakes as one message."""
    return "\n".join([f"The recipe has {len(mistakes)} mistake(s):", *(f"- {mistake}" for mistake in mistakes)])


def check_recipe(recipe: Recipe, problems: GameProblems | None, hardware: Hardware | None = None) -> list[str]:
    """
    Find all settings that would end the game later, or that would not do what they say.

    Nothing is written, and no model is downloaded.

    Args:
        recipe ([`Recipe`]):
            A recipe from `load_recipe`, which has checked the range of each field.
        problems ([`GameProblems`], *optional*):
            Its task and problems; without them, checks that need them are skipped.
        hardware ([`Hardware`], *optional*):
            Hardware that the game is played on; this machine by default. For a plan of another machine, packages missing here
            are no mistakes.

    Returns:
        `list[str]`: all mistakes; empty if there are none.
    """
    hardware = hardware or Hardware.here(recipe.device)
    mistakes = list(_check_machine(recipe)) if hardware.is_here else []
    mistakes += [*_check_trackers(recipe, hardware), *check_hub(recipe)]
    mistakes += [*_check_overrides(recipe), *_check_shown_solutions(recipe)]
    mistakes += check_warmups(recipe, hardware.num_processes)
    if problems is not None:
        of_task = list(check_task(recipe, problems))
        mistakes += [*of_task, *_check_import(recipe, problems)]
        mistakes += [] if of_task else check_warmup_lengths(recipe, problems)
    known: set[str] = set()  # a mistake that several rounds share is reported once
    refused: set[str] = set()
    for round_index in _rounds_to_check(recipe):
        place = f"In round {round_index}: " if round_index in recipe.rounds else ""
        found = [
            *_check_settings(recipe, round_index, problems, hardware),
            *_check_sequence(recipe, round_index, hardware, refused),
        ]
        mistakes += [place + mistake for mistake in found if mistake not in known]
        known.update(found)
    if problems is not None and hardware.is_here and not mistakes:  # else the players' sizes may be unknown
        mistakes += _check_disk(recipe, problems, hardware)
    return mistakes


def _rounds_to_check(recipe: Recipe) -> list[int]:
    """
    Return the rounds to check: all of them or, in a game of more than `_MANY_ROUNDS`, the first ones, the last one, and
    every round that has overrides or follows one that has.
    """
    number = recipe.num_rounds
    if number <= _MANY_ROUNDS:
        return list(range(number))
    odd = {index + offset for index in recipe.rounds for offset in (0, 1)}
    return sorted({*range(_MANY_ROUNDS), *(index for index in odd if index < number), number - 1})


def _check_settings(
    recipe: Recipe, round_index: int, problems: GameProblems | None, hardware: Hardware
) -> Iterator[str]:
    """List mistakes in a round's sections."""
    # Rounds without overrides have equal sections, so that one of them is enough.
    if round_index not in recipe.rounds and any(earlier not in recipe.rounds for earlier in range(round_index)):
        return
    of_round = recipe.for_round(round_index)
    yield from check_player(of_round, "prover", hardware, problems)
    yield from check_player(of_round, "verifier", hardware, problems)
    yield from check_shared_base(of_round, hardware)
    yield from check_generation(of_round, hardware)
    yield from check_sharding(of_round)
    yield from check_critic(of_round, hardware)
    yield from check_stop_rule(of_round)
    yield from check_extensions(of_round, (lambda name: 1.0) if problems is None else partial(read_signal, problems))
    yield from check_self_evaluation(of_round)
    if problems is not None:
        yield from refusals("`task`", partial(problems.for_round, of_round))
        yield from _check_with_problems(of_round, problems)
    yield from _check_noise_and_trainers(of_round, round_index, problems, hardware)


def _check_with_problems(recipe: Recipe, problems: GameProblems) -> Iterator[str]:
    yield from check_num_prompts(recipe.prover, len(problems.parts["prover"]))
    yield from recipe.verifier.implementation().check_task(recipe, problems.task)


def _check_noise_and_trainers(
    recipe: Recipe, round_index: int, problems: GameProblems | None, hardware: Hardware
) -> Iterator[str]:
    """List mistakes in a round's noise, and in the trainers' settings, which take its rates."""
    parts = dict.fromkeys(recipe.players, ()) if problems is None else problems.parts
    mistakes = list(check_noise(recipe))
    if problems is None or recipe.noise.checker is None:
        mistakes = mistakes or check_label_rates(recipe, round_index, parts)
    elif not mistakes:
        mistakes = list(check_checker_settings(recipe, round_index, problems.parts))
    if not (mistakes and recipe.noise.checker):  # the trainer's settings need the checker's rates
        provers_rates = stated_rates(recipe, round_index, "prover", parts["prover"])
        yield from check_prover_trainer(recipe, hardware, provers_rates)
    yield from mistakes or _check_learning(recipe, round_index, parts, hardware)


def _check_learning(
    recipe: Recipe, round_index: int, problems: Mapping[str, Iterable[Problem]], hardware: Hardware
) -> Iterator[str]:
    """List mistakes in the corrections and the verifier's trainer, given noise without mistakes."""
    assumed = {player: stated_rates(recipe, round_index, player, problems[player]) for player in recipe.players}
    yield from check_corrections(recipe, assumed)
    caused = label_rates(recipe, round_index, "verifier", problems["verifier"])
    kind = recipe.verifier.implementation()
    yield from kind.check_trainer(recipe, hardware, label_rates=caused, assumed_rates=assumed["verifier"])


def _check_machine(recipe: Recipe) -> Iterator[str]:
    place = RunFolder.of(recipe).root
    above = next(path for path in (place, *place.absolute().parents) if path.exists())
    if not above.is_dir():
        yield f"`output_dir` is `{recipe.output_dir}`, but {above} is not a folder; name another."
    else:
        try:  # the permissions do not tell: root may write to a read-only disk or /proc, which takes no folder
            tempfile.TemporaryDirectory(dir=above).cleanup()
        except OSError as err:
            yield f"`output_dir` is `{recipe.output_dir}`, but {above} cannot be written to ({err.strerror}); name another folder."
    if recipe.device == "cuda" and not torch.cuda.is_available():
        yield "`device` is `cuda`, but torch finds no GPU here; `auto` uses one if there is one."
    num_gpus = torch.cuda.device_count()
    if recipe.device != "cpu" and num_gpus > 1 and os.environ.get("WORLD_SIZE", "1") == "1":
        yield (
            f"One process sees {num_gpus} GPUs, and the trainers would split each of its batches over all of them: restrict it "
            "to one (`CUDA_VISIBLE_DEVICES=0`), or start a process for each (`accelerate launch --config_file "
            f"recipes/accelerate/multi_gpu.yaml --num_processes {num_gpus} {script_line()}`)."
        )


def _check_disk(recipe: Recipe, problems: GameProblems, hardware: Hardware) -> Iterator[str]:
    """List a mistake if the disk of the run's folder has less free space than the run will take."""
    needed = disk_bytes(recipe, problems, hardware)
    place = RunFolder.of(recipe).root
    free = shutil.disk_usage(next(path for path in (place, *place.absolute().parents) if path.exists())).free
    if needed is not None and needed > free:
        yield (
            f"`output_dir` is `{recipe.output_dir}`, whose disk has {show_bytes(free)} free, and the run will take about "
            f"{show_bytes(needed)} more (weights, checkpoints and solutions): free some space, name another folder, or "
            "write less: adapters (`lora`), or no checkpoints (`save_steps: null`)."
        )


def _check_trackers(recipe: Recipe, hardware: Hardware) -> Iterator[str]:
    for name in recipe.logging.report_to:
        if name not in TRACKERS:
            yield f"`logging.report_to` has `{name}`; known are {', '.join(TRACKERS)}."
        elif find_spec(name) is None and hardware.is_here:
            yield f"`logging.report_to` has `{name}`, which is not installed: {install_extra('track')}."


def _check_overrides(recipe: Recipe) -> Iterator[str]:
    for round_index, sections in recipe.rounds.items():
        fixed = [name for name in GAME_WIDE_SECTIONS if name in sections]
        fixed += [
            f"{player}.{name}"
            for player in ("prover", "verifier")
            for name in GAME_WIDE_PLAYER_KEYS
            if name in (sections.get(player) or {})
        ]
        fixed += [f"task.{name}" for name in sections.get("task") or {} if name not in ROUND_TASK_KEYS]
        for name in fixed:
            yield f"`rounds.{round_index}` overrides `{name}`, which holds for the whole game; set it at the top level."


def _check_shown_solutions(recipe: Recipe) -> Iterator[str]:
    """List a `task.honest_source` that no round uses."""
    of_rounds = [recipe, *(recipe.for_round(index) for index in recipe.rounds)]
    if all(part.task.sneaky_sees != "honest_solution" for part in of_rounds) and any(
        part.task.honest_source != "dataset" for part in of_rounds
    ):
        yield (
            f"`task.honest_source` is `prover`, but `task.sneaky_sees` is `{recipe.task.sneaky_sees}`, with which the sneaky role is "
            "shown no solution; set `sneaky_sees: honest_solution`."
        )


def _check_import(recipe: Recipe, problems: GameProblems) -> list[str]:
    """List mistakes in `bootstrap.import_from`: a file's columns and first matching row; for a dataset, only if it is missing."""
    bootstrap = recipe.bootstrap
    source = bootstrap.import_from
    if source is None:
        return []
    if not (source.endswith((".jsonl", ".parquet")) or Path(source).exists()):
        refusal = find_dataset_refusal(source, bootstrap.import_revision)
        return [] if refusal is None else [f"`bootstrap.import_from` is `{source}`, which cannot be read: {refusal}."]
    return refusals(
        "`bootstrap.import_from`", partial(next, imported_rows(bootstrap, problems.task, problems.parts), None)
    )


def _check_sequence(recipe: Recipe, round_index: int, hardware: Hardware, refused: set[str]) -> Iterator[str]:
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
    yield from unweighable or check_invariance_settings(recipe.for_round(round_index), round_index)
    if round_index > 0:
        yield from _check_continuation(recipe.for_round(round_index - 1), recipe.for_round(round_index), round_index)


def _check_continuation(before: Recipe, now: Recipe, round_index: int) -> Iterator[str]:
    """List settings of a round that do not fit the weights of the previous round from which it starts."""
    is_same_kind = now.verifier.kind == before.verifier.kind
    fits = is_same_kind and now.verifier.implementation().can_continue(now.verifier, before.verifier)
    if now.verifier.init != "full" and not fits:
        yield (
            f"`verifier.init` is `{now.verifier.init}`, but round {round_index - 1} has another `verifier.kind` or other "
            f"`verifier.lora`, so that its weights do not fit round {round_index}."
        )
    is_other_form = now.prover.is_separate != before.prover.is_separate
    is_other_shape = is_other_form or now.prover.lora != before.prover.lora
    if now.prover.init == "previous" and is_other_shape:
        yield (
            f"`prover.init` is `previous`, but round {round_index - 1} has other `prover.lora` or `prover.roles`, so that "
            f"its weights do not fit round {round_index}."
        )
