"""Checks that the folders of finished phases are complete and unchanged."""

from collections.abc import Iterator
from pathlib import Path

from pvg_hf.config import Recipe
from pvg_hf.core.disk_names import CALIBRATION
from pvg_hf.core.integrity import DIGESTS, DamagedFileError, find_damaged, missing_files, read_json, replay_advice
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.run.layout import (
    FIGURES,
    HELDOUT,
    METRICS,
    PROBLEMS,
    PhaseKey,
    RunFolder,
    finished_phases,
    pool_file,
    pool_test_file,
    schedule,
)
from pvg_hf.run.phase_record import read_record

# Files that every finished phase has, apart from models.
_TEST_FILES = tuple(map(pool_test_file, GAME_ROLES))
_FILES = {
    "bootstrap": (pool_file(Role.BASE), *_TEST_FILES),
    "verifier": (CALIBRATION, HELDOUT),
    "mint": (pool_file(Role.SNEAKY), *_TEST_FILES),
    "evaluate": (FIGURES, PROBLEMS),
}

VERIFIER_INPUT_FILES = ("verifier_input.json", "score_verifier.json")
"""Files with a verifier's input settings; the folder of a trained verifier has one of them."""

_MODEL_PHASES = ("warmup", "verifier", "prover")

# Configuration of a model or adapter, and the possible names of its weights.
_WEIGHTS = {
    "config.json": ("model.safetensors", "model.safetensors.index.json"),
    "adapter_config.json": ("adapter_model.safetensors",),
}


def check_finished_phases(recipe: Recipe, folder: RunFolder) -> None:
    """
    Check the folders of all finished phases.

    Raises:
        DamagedFileError: if a file is damaged or missing; the message names it and says what to do.
    """
    for damage in find_damage(recipe, folder).values():
        raise damage


def find_damage(recipe: Recipe, folder: RunFolder) -> dict[PhaseKey, DamagedFileError]:
    """
    Find damage in the folders of finished phases.

    Each existing file must be as it was written. A missing file is damage only if a later phase reads it, so that the weights
    of earlier rounds may be deleted.

    Args:
        recipe ([`Recipe`]):
            Recipe of the run.
        folder ([`RunFolder`]):
            The run's folder.

    Returns:
        `dict[PhaseKey, DamagedFileError]`: the damaged phases in order, with the first damage of each.
    """
    finished = finished_phases(recipe, folder)
    to_come = set(schedule(recipe)).difference(finished)
    needed = {earlier for key in to_come for earlier in _phases_read(recipe, key)}
    found = {key: damage_of(key, key.target(folder), is_needed=key in needed) for key in finished}
    return {key: damage for key, damage in found.items() if damage is not None}


def damage_of(key: PhaseKey, target: Path, *, is_needed: bool) -> DamagedFileError | None:
    """First damage in a finished phase's folder, if any; with `is_needed`, missing weights are damage, too."""
    for damage in find_damaged(target):
        return damage
    try:
        read_record(target)
        missing = _missing_files(key, target, is_needed=is_needed)
        name = next(missing, None)
    except DamagedFileError as err:
        return err
    return name and DamagedFileError(target / name, "is missing", replay_advice(target))


def unchecked_phases(recipe: Recipe, folder: RunFolder) -> list[PhaseKey]:
    """Finished phases without digests, from an older version: damage that leaves a file readable is not found in them."""
    return [key for key in finished_phases(recipe, folder) if not (key.target(folder) / DIGESTS).exists()]


def _phases_read(recipe: Recipe, key: PhaseKey) -> Iterator[PhaseKey]:
    """Earlier phases that a phase reads. Earlier pools are left out, because their files are looked up by name."""
    k = key.round_index
    yield PhaseKey("warmup")
    if k is None:
        return
    yield PhaseKey("bootstrap")
    config = recipe.for_round(k)
    if key.name == "verifier" and config.verifier.init == "warm":
        yield PhaseKey("verifier", k - 1)
    if key.name == "prover" and config.prover.init == "previous":
        yield PhaseKey("prover", k - 1)
    reads = {"prover": ("verifier",), "mint": ("verifier", "prover"), "evaluate": ("verifier", "mint")}
    yield from (PhaseKey(name, k) for name in reads.get(key.name, ()))


def _missing_files(key: PhaseKey, target: Path, *, is_needed: bool) -> Iterator[str]:
    """Missing files, by path in a phase's folder."""
    listed = [path.relative_to(target).as_posix() for path in missing_files(target)]
    own = (*_FILES.get(key.name, ()), METRICS)
    if not is_needed:
        yield from (name for name in own if name in listed or (name == METRICS and not (target / name).exists()))
        return
    yield from listed
    yield from (name for name in own if not (target / name).exists())
    if key.name == "verifier" and not any((target / name).exists() for name in VERIFIER_INPUT_FILES):
        yield VERIFIER_INPUT_FILES[0]
    if key.name in _MODEL_PHASES:
        yield from _missing_of_models(target)


def _missing_of_models(target: Path) -> Iterator[str]:
    names = {*_WEIGHTS, *(weights for names in _WEIGHTS.values() for weights in names)}
    places = sorted({path.parent for path in target.rglob("*") if path.name in names})
    if not places:
        yield "config.json"
    for place in places:
        yield from ((place / name).relative_to(target).as_posix() for name in _missing_of_model(place))


def _missing_of_model(place: Path) -> Iterator[str]:
    is_adapter = any((place / name).exists() for name in ("adapter_config.json", *_WEIGHTS["adapter_config.json"]))
    config = "adapter_config.json" if is_adapter else "config.json"
    needed = [config, "tokenizer_config.json"]
    index = place / "model.safetensors.index.json"
    if index.exists():
        needed += sorted(set(read_json(index)["weight_map"].values()))
    yield from (name for name in needed if not (place / name).exists())
    if not any((place / name).exists() for name in _WEIGHTS[config]):
        yield _WEIGHTS[config][0]
