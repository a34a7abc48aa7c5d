"""Finds all mistakes of a recipe that can be found before anything is played."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from pvg_hf.check.contradictions import check_contradictions, check_corrections
from pvg_hf.check.custom_code import check_extensions, check_task, read_signal
from pvg_hf.check.loading import check_player, check_shared_type
from pvg_hf.check.machine import check_disk, check_generation, check_hub, check_machine, check_sharding
from pvg_hf.check.noise_settings import check_checker, check_checker_settings, check_label_rates
from pvg_hf.check.refusals import refusals
from pvg_hf.check.round_plans import check_memory
from pvg_hf.check.trainer_settings import (
    check_critic,
    check_invariance_settings,
    check_num_prompts,
    check_prover_trainer,
)
from pvg_hf.config import Recipe
from pvg_hf.config.fields import WholeGame, marked_keys, without_keys
from pvg_hf.config.load import refuse
from pvg_hf.config.sections import BootstrapConfig
from pvg_hf.core.data_files import names_file
from pvg_hf.core.hub_access import find_dataset_refusal
from pvg_hf.data.annotations import read_scores
from pvg_hf.data.imports import imported_rows
from pvg_hf.data.label_rates import label_rates, stated_rates
from pvg_hf.data.mixture import weights_for
from pvg_hf.data.problems import GameProblems
from pvg_hf.models.hardware import Hardware

_MANY_ROUNDS = 100  # check no more rounds than that in full: each has a mixture of all earlier ones


def refuse_mistakes(recipe: Recipe, problems: GameProblems) -> None:
    """Raise a `RecipeError` if the recipe has mistakes; all of them are listed."""
    refuse(check_recipe(recipe, problems))


def check_recipe(recipe: Recipe, problems: GameProblems | None, hardware: Hardware | None = None) -> list[str]:
    """
    Find all settings that would end the game later, or that would not do what they say.

    Nothing is written, and no model is downloaded.

    Args:
        recipe: A recipe from `load_recipe`, which has checked the range of each field.
        problems: Its task and problems; without them, checks that need them are skipped.
        hardware: Hardware that the game is played on; this machine by default. For a plan of another machine, packages
            missing here are no mistakes.
    """
    hardware = hardware or Hardware.here(recipe.device)
    mistakes = list(check_machine(recipe)) if hardware.is_here else []
    mistakes += [*check_hub(recipe), *_check_overrides(recipe), *_check_shown_solutions(recipe)]
    if problems is not None:
        mistakes += [*check_task(recipe, problems), *_check_import(recipe.bootstrap, problems)]
    known: set[str] = set()  # a mistake that several rounds share is reported once
    refused: set[str] = set()
    for round_index in _rounds_to_check(recipe):
        place = f"In round {round_index}: " if round_index in recipe.rounds else ""
        of_round = recipe.for_round(round_index)
        # Rounds without overrides have equal sections, so that one of them is enough.
        is_new = round_index in recipe.rounds or all(earlier in recipe.rounds for earlier in range(round_index))
        found = [
            *(_check_settings(of_round, round_index, problems, hardware) if is_new else ()),
            *_check_sequence(recipe, of_round, round_index, refused),
        ]
        mistakes += [place + mistake for mistake in found if mistake not in known]
        known.update(found)
    if problems is not None and hardware.is_here and not mistakes:  # else the players' sizes may be unknown
        mistakes += [*check_disk(recipe, problems, hardware), *check_memory(recipe, problems, hardware)]
    return mistakes


def _rounds_to_check(recipe: Recipe) -> list[int]:
    """
    Return the rounds to check: all of them or, in a game of more than `_MANY_ROUNDS`, the first ones, the last one,
    and every round that has overrides or follows one that has.
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
    yield from check_player(recipe, "prover", hardware, problems)
    yield from check_player(recipe, "verifier", hardware, problems)
    yield from check_contradictions(recipe)
    yield from check_shared_type(recipe, hardware)
    yield from check_generation(recipe, hardware)
    yield from check_sharding(recipe)
    yield from check_critic(recipe, hardware)
    if recipe.data.annotations is not None:
        yield from refusals("`data.annotations`", partial(read_scores, recipe.data.annotations))
    yield from check_extensions(recipe, (lambda name: 1.0) if problems is None else partial(read_signal, problems))
    if problems is not None:
        yield from refusals("`task`", partial(problems.for_round, recipe))
        yield from check_num_prompts(recipe.prover, len(problems.parts["prover"]))
        yield from recipe.verifier.implementation().check_task(recipe, problems.task)
    yield from _check_noise_and_trainers(recipe, round_index, problems, hardware)


def _check_noise_and_trainers(
    recipe: Recipe, round_index: int, problems: GameProblems | None, hardware: Hardware
) -> Iterator[str]:
    """List mistakes in a round's noise, and in the trainers' settings, which take its rates."""
    parts = dict.fromkeys(recipe.players, ()) if problems is None else problems.parts
    mistakes = check_checker(recipe.noise.checker)
    if problems is None or recipe.noise.checker is None:
        mistakes = mistakes or check_label_rates(recipe, round_index, parts)
    elif not mistakes:
        mistakes = list(check_checker_settings(recipe, round_index, problems.parts))
    yield from mistakes
    if mistakes and recipe.noise.checker:  # the trainers' settings need the checker's rates
        return
    assumed = {player: stated_rates(recipe, round_index, player, parts[player]) for player in recipe.players}
    yield from check_prover_trainer(recipe, hardware, assumed["prover"])
    if mistakes:
        return
    yield from check_corrections(recipe, assumed)
    caused = label_rates(recipe, round_index, "verifier", parts["verifier"])
    kind = recipe.verifier.implementation()
    yield from kind.check_trainer(recipe, hardware, label_rates=caused, assumed_rates=assumed["verifier"])


def _check_overrides(recipe: Recipe) -> Iterator[str]:
    for round_index, override in recipe.rounds.items():
        for key in marked_keys(Recipe, WholeGame):
            if without_keys(override, [key]) != override:
                yield (
                    f"`rounds.{round_index}` overrides `{key}`, which holds for the whole game; set it at the top"
                    " level."
                )


def _check_shown_solutions(recipe: Recipe) -> Iterator[str]:
    """List a `task.honest_source` that no round uses."""
    of_rounds = [recipe, *(recipe.for_round(index) for index in recipe.rounds)]
    if all(part.task.sneaky_sees != "honest_solution" for part in of_rounds) and any(
        part.task.honest_source != "dataset" for part in of_rounds
    ):
        yield (
            f"`task.honest_source` is `prover`, but `task.sneaky_sees` is `{recipe.task.sneaky_sees}`, with which the"
            " sneaky role is shown no solution; set `sneaky_sees: honest_solution`."
        )


def _check_import(bootstrap: BootstrapConfig, problems: GameProblems) -> list[str]:
    """
    List mistakes in `bootstrap.import_from`: a file's columns and first matching row; for a dataset, only if it is
    missing.
    """
    source = bootstrap.import_from
    if source is None:
        return []
    if not (names_file(source) or Path(source).exists()):
        refusal = find_dataset_refusal(source, bootstrap.import_revision)
        return [] if refusal is None else [f"`bootstrap.import_from` is `{source}`, which cannot be read: {refusal}."]
    return refusals(
        "`bootstrap.import_from`", partial(next, imported_rows(bootstrap, problems.task, problems.parts), None)
    )


def _check_sequence(recipe: Recipe, of_round: Recipe, round_index: int, refused: set[str]) -> Iterator[str]:
    """
    List mistakes that depend on the round's place in the game: its mixture of earlier rounds, and its initial weights.

    A custom mixture that fails is added to `refused`, and is not reported again in later rounds.
    """
    mixture = of_round.data.mixture
    unweighable = refusals("`data.mixture`", partial(weights_for, of_round.data, round_index))
    if unweighable and ":" in mixture:
        unweighable = [] if mixture in refused else unweighable
        refused.add(mixture)
    yield from unweighable or check_invariance_settings(of_round, round_index)
    if round_index > 0:
        yield from _check_continuation(recipe.for_round(round_index - 1), of_round, round_index)


def _check_continuation(before: Recipe, now: Recipe, round_index: int) -> Iterator[str]:
    """List settings of a round that do not fit the weights of the previous round from which it starts."""
    is_same_kind = now.verifier.kind == before.verifier.kind
    fits = is_same_kind and now.verifier.implementation().can_continue(now.verifier, before.verifier)
    if now.verifier.init != "full" and not fits:
        yield (
            f"`verifier.init` is `{now.verifier.init}`, but round {round_index - 1} has another `verifier.kind` or"
            f" other `verifier.lora`, so that its weights do not fit round {round_index}."
        )
    is_other_form = now.prover.is_separate != before.prover.is_separate
    is_other_shape = is_other_form or now.prover.lora != before.prover.lora
    if now.prover.init == "previous" and is_other_shape:
        yield (
            f"`prover.init` is `previous`, but round {round_index - 1} has other `prover.lora` or `prover.roles`, so"
            f" that its weights do not fit round {round_index}."
        )
