"""
Begins a run with the first phases of another run, if they have the same settings: arms of an experiment share them.
"""

import logging
import os
import shutil

from pvg_hf.config import Recipe
from pvg_hf.core.files import remove, sync_tree
from pvg_hf.core.integrity import find_damaged
from pvg_hf.run.layout import PhaseKey, RunFolder, early_phases, partial_of, phase_settings
from pvg_hf.run.lock import locked
from pvg_hf.run.resume import check_same_recipe, read_played_recipe

logger = logging.getLogger(__name__)


def begin_with(recipe: Recipe, source: RunFolder) -> list[PhaseKey]:
    """
    Copy the first phases of another run into the folder of a recipe's run, as far as they are the same and not there
    yet.

    These are the warm-up, the bootstrap and the verifier of round 0. Their copies have the digests and durations of
    the other run, and the base prover's solutions name that run in the column `prover`.

    Args:
        recipe: The recipe of the run that begins.
        source: Folder of the other run.
    Returns: the phases that were copied.
    Raises `ValueError` if `source` is no run, the run in the recipe's folder has another recipe, or another process
        plays it.
    Raises `DamagedFileError` if a phase of the other run is damaged.
    """
    folder, copied = RunFolder.of(recipe), []
    shared = same_phases(recipe, read_played_recipe(RunFolder.find(source.root)))
    check_same_recipe(folder, recipe)
    with locked(folder.root, is_main=True):
        for key in shared:
            origin, target = key.target(source), key.target(folder)
            if not origin.exists():
                break  # later phases follow from this one
            if target.exists():
                continue
            for damage in find_damaged(origin):
                raise damage
            partial = partial_of(target)
            remove(partial)
            shutil.copytree(origin, partial)
            sync_tree(partial)
            os.replace(partial, target)
            copied.append(key)
    if copied:
        logger.info("%s begins with %s of %s", recipe.name, ", ".join(map(str, copied)), source.root)
    return copied


def same_phases(recipe: Recipe, other: Recipe) -> list[PhaseKey]:
    """
    List the first phases that have the same results in the games of two recipes.

    The verifier of round 0 learns from the base prover's solutions alone.
    """
    phases = [*early_phases(recipe), PhaseKey("verifier", 0)]
    same = [phase_settings(recipe, key) == phase_settings(other, key) for key in phases]
    return phases[: [*same, False].index(False)]
