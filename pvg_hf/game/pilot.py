"""The pilot: before a game, the base prover writes a few solutions, which show whether the game can work."""

import gc
import json
import logging
from collections.abc import Sequence
from typing import Any

import torch
from accelerate import PartialState

from pvg_hf.check.plan import has_pilot
from pvg_hf.check.round_plans import PILOT, keep_rates
from pvg_hf.config import Recipe
from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.files import write_json
from pvg_hf.core.integrity import DamagedFileError
from pvg_hf.core.stopwatch import WRITING, measuring
from pvg_hf.data.problems import GameProblems
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.interrupt import StopRequest
from pvg_hf.game.minting import WriteJob, sample_rows
from pvg_hf.report.pilot_findings import PILOT_ROLES, Pilot
from pvg_hf.run.layout import PhaseKey, RunFolder

logger = logging.getLogger(__name__)

_SECTIONS = ("seed", "task", "split", "bootstrap", "data", "prover")  # on which the solutions and the findings depend

_COLUMNS = (
    *("role", "outcome", "problem_id", "problem", "solution", "answer", "num_tokens"),
    *("strict_answer", "lenient_answer", "lenient_correct"),  # if the task reads answers
)


def is_pilot_due(recipe: Recipe, folder: RunFolder, phases: Sequence[PhaseKey]) -> bool:
    """
    Whether playing these phases begins a new game, which has a pilot. The recipe is kept in the folder only after it.
    """
    return has_pilot(recipe) and PhaseKey("bootstrap") in phases and not folder.recipe.exists()


def read_or_run_pilot(recipe: Recipe, folder: RunFolder, problems: GameProblems, stop: StopRequest) -> Pilot:
    """
    Return the pilot that is kept in the run's folder, or else run it and keep it. All processes must call this.

    Raises `ValueError` if the recipe has no pilot, or the base prover does not exist yet.
    Raises `GameInterrupted` if the user asked to stop; nothing is kept.
    """
    if recipe.bootstrap.pilot_problems == 0:
        raise ValueError(
            "`bootstrap.pilot_problems` is 0, and a pilot needs problems, e.g. `bootstrap.pilot_problems=32`."
        )
    if recipe.prover.is_made and not folder.models.exists():
        raise ValueError(
            "The pilot needs the base prover, which the phase `warmup` makes (`prover.scratch`, `prover.warmup`): play"
            " that first, by `--phase warmup`."
        )
    # As JSON has them, in which all keys are texts.
    settings = json.loads(json.dumps({name: value for name, value in recipe.to_dict().items() if name in _SECTIONS}))
    rows = _read_rows(folder, settings)
    if rows is None:
        rows = _sample(recipe, folder, problems, stop)
        processes = PartialState()
        if processes.is_main_process:
            write_json(folder.pilot, {"settings": settings, "rows": rows})
        processes.wait_for_everyone()  # all may read it from here on
    return Pilot(recipe, rows)


def _sample(recipe: Recipe, folder: RunFolder, problems: GameProblems, stop: StopRequest) -> list[dict[str, Any]]:
    part = problems.parts["verifier"]
    asked = part.take(recipe.bootstrap.pilot_problems)
    context = PhaseContext(recipe, folder, PhaseKey("pilot"), problems, stop)
    sampler = context.players.base_sampler()
    rows = []
    with measuring() as stopwatch:
        for role in PILOT_ROLES:
            logger.info("Pilot: %d problems in the %s role", len(asked), role)
            rows += sample_rows(context, WriteJob("verifier", role, BASE_ROUND, 1), asked, sampler)
        written = {WRITING: stopwatch.read()[WRITING]}
    if context.processes.is_main_process:
        keep_rates(recipe, context.players.hardware, PILOT, written)
    del sampler
    gc.collect()  # free the prover before a phase loads its own players
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return [{name: row[name] for name in _COLUMNS if name in row} for row in rows]


def _read_rows(folder: RunFolder, settings: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Rows of the kept pilot; `None` if there is none, it was made with other settings, or it cannot be read."""
    try:
        kept = folder.read_pilot()
    except DamagedFileError:
        return None
    return kept["rows"] if kept.get("settings") == settings else None
