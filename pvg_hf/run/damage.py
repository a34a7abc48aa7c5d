"""Checks that the folders of finished phases are complete and unchanged."""

from collections.abc import Iterator
from pathlib import Path

from pvg_hf.config import Recipe
from pvg_hf.core.disk_names import CALIBRATION
from pvg_hf.core.integrity import DamagedFileError, find_damaged, missing_files
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

# Files that are read long after their phase. Others, such as weights, may be deleted once no later phase reads them.
_KEPT = {METRICS, CALIBRATION, HELDOUT, FIGURES, PROBLEMS, *map(pool_file, Role), *map(pool_test_file, GAME_ROLES)}


def check_finished_phases(recipe: Recipe, folder: RunFolder) -> None:
    """
    Check the folders of all finished phases.

    Raises `DamagedFileError` if a file is damaged or missing; the message names it and says what to do.
    """
    for damage in find_damage(recipe, folder).values():
        raise damage


def find_damage(recipe: Recipe, folder: RunFolder) -> dict[PhaseKey, DamagedFileError]:
    """
    Find damage in the folders of finished phases.

    Each existing file must be as it was written. A missing file is damage only if a later phase reads it, so that the weights
    of earlier rounds may be deleted.

    Returns: the damaged phases in order, with the first damage of each.
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
    except DamagedFileError as err:
        return err
    missing = [path for path in missing_files(target) if is_needed or path.name in _KEPT]
    if is_needed and key.name in ("warmup", "verifier", "prover") and not has_weights(target):
        missing.append(target / "model.safetensors")
    return DamagedFileError(missing[0], "is missing") if missing else None


def has_weights(folder: Path) -> bool:
    """Whether a player's weights are below a folder: those of earlier rounds may be deleted, or not be downloaded."""
    return next(folder.rglob("*.safetensors"), None) is not None


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
