"""The pilot: before a game, the base prover writes a few solutions, which show whether the game can work."""

import gc
import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Any

import torch
from tqdm.auto import tqdm

from pvg_hf.check.plan import has_pilot
from pvg_hf.check.round_plans import PILOT, keep_rates
from pvg_hf.config import Recipe
from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.files import write_json
from pvg_hf.core.integrity import DamagedFileError
from pvg_hf.core.roles import Role
from pvg_hf.core.stopwatch import WRITING, measuring
from pvg_hf.data.problems import GameProblems
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.interrupt import StopRequest
from pvg_hf.game.minting import WriteJob, sample_rows
from pvg_hf.models.hardware import Hardware
from pvg_hf.report.pilot_findings import PILOT_ROLES, Pilot, Row
from pvg_hf.run.console import shows_progress
from pvg_hf.run.layout import PhaseKey, RunFolder
from pvg_hf.sampling import Sampler

logger = logging.getLogger(__name__)

_SECTIONS = ("seed", "task", "split", "bootstrap", "data", "prover")  # on which the solutions and the findings depend

MAX_PROBLEMS = 128  # for each role; of so many, none correct is surely less than 5 %

NUM_GROUPS = 8  # problems for which a trained role writes a whole group

_COLUMNS = (
    *("role", "outcome", "problem_id", "sample_index", "problem", "solution", "answer", "num_tokens"),
    *("strict_answer", "lenient_answer", "lenient_correct"),  # if the task reads answers
)


def is_pilot_due(recipe: Recipe, folder: RunFolder, phases: Sequence[PhaseKey]) -> bool:
    """
    Whether playing these phases begins a game that has a pilot.

    The recipe is kept in the folder only after it, unless the game has to make the prover first.
    """
    is_new = recipe.prover.is_made or not folder.recipe.exists()
    return has_pilot(recipe) and PhaseKey("bootstrap") in phases and is_new


def read_or_run_pilot(recipe: Recipe, folder: RunFolder, problems: GameProblems, stop: StopRequest) -> Pilot:
    """
    Return the pilot that is kept in the run's folder, or run what is missing of it. All processes must call this.

    A role's solutions are kept as soon as they are written. It gets more problems until each share that the game needs
    is decided, up to `MAX_PROBLEMS`.

    Raises `ValueError` if the recipe has no pilot, or the base prover does not exist yet.
    Raises `GameInterrupted` if the user asked to stop; finished roles are kept.
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
    if _next_draw(recipe, problems, rows) is None:
        return Pilot(recipe, rows)
    context = PhaseContext(recipe, folder, PhaseKey("pilot"), problems, stop)
    sampler = context.players.base_sampler()
    num_rows, num_batches = 0, 0
    with measuring() as stopwatch:
        while draw := _next_draw(recipe, problems, rows):
            drawn = _sample(context, *draw, sampler)
            num_rows, num_batches = num_rows + len(drawn), num_batches + ceil(len(draw[1]) / NUM_GROUPS)
            rows = rows + [{name: row[name] for name in _COLUMNS if name in row} for row in drawn]
            if context.processes.is_main_process:
                write_json(folder.pilot, {"settings": settings, "rows": rows})
            logger.info("Pilot: %s", Pilot(recipe, rows).describe_role(draw[0]))
        written = stopwatch.read()[WRITING]
    if context.processes.is_main_process:
        seconds = written.seconds * _scale_to_bootstrap(recipe, num_rows / num_batches, context.players.hardware)
        keep_rates(recipe, context.players.hardware, PILOT, {WRITING: replace(written, seconds=seconds)})
    context.processes.wait_for_everyone()  # all may read it from here on
    del sampler
    gc.collect()  # free the prover before a phase loads its own players
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return Pilot(recipe, rows)


def _scale_to_bootstrap(recipe: Recipe, at_once: float, hardware: Hardware) -> float:
    """
    Estimate a token's time in the bootstrap as a share of that in the pilot, which writes fewer solutions at once.

    A GPU takes nearly as long for a token of many solutions as for one of few. A processor wrote 1.9 and 2.5 times as
    many tokens a second with 64 at once as with 8, about 8^.4 (two runs of benchmarks/processor_rates.py).
    """
    usual = Sampler.default_prompts_per_batch * recipe.bootstrap.solutions_per_problem
    return min(1.0, (at_once / usual) ** (1.0 if hardware.has_gpu else 0.4))


def _next_draw(recipe: Recipe, problems: GameProblems, rows: list[Row]) -> tuple[Role, range] | None:
    """Return the next role with the indices of its next problems of D_V; `None` if the pilot is finished."""
    pilot, number = Pilot(recipe, rows), recipe.bootstrap.pilot_problems
    most = min(len(problems.parts["verifier"]), max(number, MAX_PROBLEMS))
    for role in PILOT_ROLES:
        have = pilot.counts(role).total()
        if have < most and (have == 0 or pilot.is_open(role)):
            return role, range(have, min(have + number, most))
    return None


def _sample(context: PhaseContext, role: Role, asked: range, sampler: Sampler) -> list[Row]:
    """Write a solution to each problem, and a whole group to the first ones of a role that is trained."""
    group = context.recipe.prover.num_generations if role in context.recipe.prover.trained_roles else 1
    rows: list[Row] = []
    is_silent = not (context.processes.is_main_process and shows_progress(context.recipe.logging))
    with tqdm(total=len(asked), desc=f"pilot, {role}", unit="problem", disable=is_silent, leave=False) as bar:
        for start in asked[::NUM_GROUPS]:
            chunk = asked[start - asked.start :][:NUM_GROUPS]
            job = WriteJob("verifier", role, BASE_ROUND, group if start == 0 else 1)
            rows += sample_rows(context, job, context.problems.parts["verifier"].select(chunk), sampler)
            bar.update(len(chunk))
    return rows


def _read_rows(folder: RunFolder, settings: dict[str, Any]) -> list[Row]:
    """Rows of the kept pilot; empty if there is none, it was made with other settings, or it cannot be read."""
    try:
        kept = folder.read_pilot()
    except DamagedFileError:
        return []
    return kept["rows"] if kept.get("settings") == settings else []
