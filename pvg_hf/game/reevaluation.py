"""Evaluates the rounds of a run again, e.g. those that an older version evaluated with fewer figures."""

import os
from dataclasses import replace
from pathlib import Path

from pvg_hf.check.mistakes import refuse_mistakes
from pvg_hf.core.files import remove
from pvg_hf.data.problems import GameProblems
from pvg_hf.game.play import play
from pvg_hf.run.damage import damage_of
from pvg_hf.run.layout import PhaseKey, RunFolder, partial_of
from pvg_hf.run.lock import locked


def evaluate_again(root: Path) -> RunFolder:
    """
    Delete the evaluations of a run and play their phases again.

    Args:
        root (`Path`):
            The run's folder, under the name of its recipe.

    Returns:
        [`RunFolder`]: the run's folder.

    Raises:
        ValueError: if the folder is no run or has another name, its recipe has mistakes, or a verifier or solutions that
            the evaluations need are missing or damaged; nothing is deleted then.
    """
    folder = RunFolder.find(root)
    recipe = replace(folder.read_recipe(), output_dir=str(root.absolute().parent))
    if recipe.name != root.absolute().name:
        raise ValueError(f"{root} is a run of the name `{recipe.name}`; rename the folder back to that first.")
    rounds = sorted(folder.rounds("evaluation"))
    for key in (PhaseKey(name, k) for k in rounds for name in ("verifier", "mint")):
        damage = damage_of(key, key.target(folder), is_needed=True)
        if damage is not None:
            raise damage
    refuse_mistakes(recipe, GameProblems.load(recipe))  # as `play` does, but before anything is deleted
    with locked(root, is_main=True):
        for k in rounds:
            target = folder.evaluation(k)
            os.replace(target, partial_of(target))  # a crash must not leave half of a finished folder
            remove(partial_of(target))
    for k in rounds:
        play(recipe, phase="evaluate", round_index=k)
    return folder
