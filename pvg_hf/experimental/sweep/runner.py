"""
Runs a sweep cell by cell, or describes it.

Each result appears by one rename, so that a stopped sweep resumes with the unfinished cells.
"""

import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from functools import partial

import yaml

from pvg_hf.check.mistakes import check_recipe
from pvg_hf.config import Recipe, RecipeError, load_recipe
from pvg_hf.config.load import refuse
from pvg_hf.config.recipe import leaves
from pvg_hf.config.trust import admit_recipe
from pvg_hf.core.files import write_json, write_text
from pvg_hf.core.integrity import read_json
from pvg_hf.core.units import show_seconds
from pvg_hf.data.problems import GameProblems
from pvg_hf.experimental.sweep.cells import (
    SETTINGS,
    Cell,
    CellResult,
    cell_recipe,
    clean_cell,
    list_cells,
    needs_pool,
    pool_recipe,
    sweep_folder,
)
from pvg_hf.experimental.sweep.measures import measure_cell
from pvg_hf.experimental.sweep.result_tables import write_results
from pvg_hf.game.play import play
from pvg_hf.run.jobs import Job, JobFolder, JobsFailedError, default_workers, run_jobs
from pvg_hf.run.layout import schedule
from pvg_hf.run.lock import locked
from pvg_hf.run.resume import check_same_settings

logger = logging.getLogger(__name__)

# Keys that may change when a sweep is resumed: they do not affect finished cells.
_GROWING = ("sweep.levels", "sweep.seeds", "sweep.corrections", "output_dir", "logging")


def run_sweep(recipe: Recipe, *, num_workers: int | None = None, executor: Executor | None = None) -> JobFolder:
    """
    Run or resume a sweep. Cells with a result are not played again.

    Args:
        recipe ([`~pvg_hf.config.Recipe`]): A recipe with a section `sweep`.
        num_workers (`int`, *optional*):
            Number of processes, see [`~pvg_hf.run.jobs.default_workers`]. With 1, cells run in this process.
        executor ([`~concurrent.futures.Executor`], *optional*):
            Runs the cells instead, such as that of a cluster; its processes must share the sweep's folder.

    Returns:
        [`~pvg_hf.run.jobs.JobFolder`]: the folder, with `summary.md`, tables and plots.

    Raises:
        ValueError: if a cell's recipe is invalid, or the folder is in use or belongs to another sweep.
        JobsFailedError: if cells could not be played or a worker was killed; tables and plots of the others are
        written.
    """
    folder, cells = sweep_folder(recipe), _checked_cells(recipe)
    num_workers = num_workers or default_workers(recipe.device)
    with locked(folder.root, is_main=True, user="The sweep in {root} is being run"):
        _check_folder(recipe, folder)
        write_text(folder.recipe, yaml.safe_dump(recipe.to_dict(), sort_keys=False))
        todo = [cell for cell in cells if not folder.result(cell.name).exists()]
        logger.info("To play: %s", _describe_work(recipe, todo, num_workers))
        try:
            run_jobs([_job(recipe, cell) for cell in cells], executor, num_workers=num_workers)
        except JobsFailedError:
            write_results(recipe, folder)
            raise
        write_results(recipe, folder)
    return folder


def _job(recipe: Recipe, cell: Cell) -> Job:
    clean = clean_cell(cell.seed)
    needs = () if cell == clean else (str(clean),)
    return Job(str(cell), partial(finish_cell, recipe, cell), sweep_folder(recipe).result(cell.name).exists, needs)


def finish_cell(recipe: Recipe, cell: Cell) -> str:
    """
    Play a cell, write its result, and say what came out. A seed's clean cell first mints the seed's pool, if needed.
    """
    folder, played = sweep_folder(recipe), cell_recipe(recipe, cell)
    if cell == clean_cell(cell.seed) and needs_pool(recipe):
        _mint(recipe, cell.seed)
    started = time.monotonic()
    if recipe.sweep.form == "game":
        play(played)
    else:
        _play_alone(played, ["warmup", "bootstrap", "verifier"])
    figures = measure_cell(played, folder.run(cell.name), folder.run(clean_cell(cell.seed).name))
    result = {"seed": cell.seed, "level": cell.level, "correction": cell.correction}
    result["seconds"] = time.monotonic() - started
    result["figures"] = {name: figure.to_dict() for name, figure in figures.items()}
    folder.result(cell.name).parent.mkdir(exist_ok=True)
    write_json(folder.result(cell.name), result)
    return f"clean pair accuracy {figures['pair_accuracy'].value:.3f} in {show_seconds(result['seconds'])}"


def _mint(recipe: Recipe, seed: int) -> None:
    is_imported = recipe.bootstrap.import_from is not None
    _play_alone(pool_recipe(recipe, seed), ["warmup"] if is_imported else ["warmup", "bootstrap"])


def _play_alone(recipe: Recipe, phases: list[str]) -> None:
    """Play only the named phases of a game with one round."""
    for key in schedule(recipe):
        if key.name in phases:
            play(recipe, phase=key.name, round_index=key.round_index)


def describe_sweep(recipe: Recipe, *, num_workers: int | None = None) -> str:
    """
    Check a sweep and describe its cells, its progress and the expected time. Nothing is written.

    Raises:
        RecipeError: if the recipe has mistakes; all of them are listed.
    """
    folder, cells = sweep_folder(recipe), _checked_cells(recipe)
    num_workers = num_workers or default_workers(recipe.device)
    _check_folder(recipe, folder)
    todo = [cell for cell in cells if not folder.result(cell.name).exists()]
    levels = sorted({cell.level for cell in cells})
    counts = Counter(cell.correction for cell in cells)
    return "\n".join(
        [
            f"Sweep    {folder.root}",
            f"Form     {_describe_form(recipe)}",
            f"Levels   {recipe.sweep.vary} {', '.join(f'{level:g}' for level in levels)}",
            f"Seeds    {', '.join(map(str, recipe.sweep.seeds))}",
            f"Cells    {len(cells)}: {', '.join(f'{number} {name}' for name, number in counts.items())}",
            f"To play  {_describe_work(recipe, todo, num_workers)}",
        ]
    )


def _check_folder(recipe: Recipe, folder: JobFolder) -> None:
    if folder.recipe.exists():
        before = load_recipe(folder.recipe).to_dict()
        advice = "Only levels, seeds and corrections may be added or removed."
        check_same_settings(f"The sweep `{recipe.name}`", before, recipe.to_dict(), free=_GROWING, advice=advice)


def _checked_cells(recipe: Recipe) -> list[Cell]:
    """
    List the cells of a sweep, after checks of all their recipes.

    Raises `RecipeError` if there are mistakes; all of them are listed.
    Raises `UntrustedCodeError` if the recipe came with a pulled run and needs consent that the user has not given yet.
    """
    if recipe.sweep is None:
        raise RecipeError(
            "The recipe has no section `sweep`, which says what is varied; `sweep: {}` uses the defaults."
        )
    for setting in admit_recipe(recipe):
        logger.info("The recipe %s %s", setting.effect.verb, setting)
    cells = list_cells(recipe)
    refuse(dict.fromkeys(_mistakes(recipe, cells)))
    return cells


def _mistakes(recipe: Recipe, cells: list[Cell]) -> Iterator[str]:
    """
    Mistakes in the section `noise`, in each cell's recipe, and in a game of each correction at its highest level.
    """
    noise = recipe.noise
    if noise.rho0 or noise.rho1 or noise.checker is not None:
        yield "`noise` states rates or a checker, but its rates are what `sweep.levels` varies: leave them out."
        return
    varied = {key for setting in SETTINGS.values() for key in leaves(setting)}
    for index, override in recipe.rounds.items():
        for key, value in leaves(override).items():
            if key in varied or key.startswith("noise."):
                yield f"`rounds.{index}.{key}: {value}` would replace what the sweep varies: leave it out."
    if not recipe.verifier.traits.learns_from_pairs:
        yield (
            "A sweep varies the noise of labels of pairs, which `verifier.kind: score` does not learn from; it needs"
            " `bradley_terry`."
        )
        return
    problems = GameProblems.load(cell_recipe(recipe, cells[0], takes_pool=False))
    for cell in {cell.correction: cell for cell in sorted(cells)}.values():
        try:
            yield from check_recipe(cell_recipe(recipe, cell, takes_pool=False), problems)
        except RecipeError as err:
            yield f"At level {cell.level:g} with `{cell.correction}`: {err}"


def _describe_work(recipe: Recipe, todo: Sequence[Cell], num_workers: int) -> str:
    """How many cells are left, and the time for them, which is known once a cell is finished."""
    work = f"{len(todo)} cells with {num_workers} worker(s)"
    files = [sweep_folder(recipe).result(cell.name) for cell in list_cells(recipe)]
    seconds = [read_json(file, CellResult).seconds for file in files if file.exists()]
    if not todo or not seconds:
        return work
    expected = len(todo) * sum(seconds) / len(seconds) / num_workers
    return f"{work}, about {show_seconds(expected)}, as the finished ones took"


def _describe_form(recipe: Recipe) -> str:
    if recipe.sweep.form == "game":
        return f"whole games of {recipe.num_rounds} round(s)"
    return f"the first verifier alone, {recipe.verifier.max_steps} steps"
