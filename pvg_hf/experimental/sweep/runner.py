"""
Runs a sweep cell by cell.

Each result appears by one rename, so that a stopped sweep resumes with the unfinished cells.
"""

import logging
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from functools import partial

import yaml
from tqdm import tqdm

from pvg_hf.check.mistakes import check_recipe, list_mistakes
from pvg_hf.config import Recipe, RecipeError, load_recipe
from pvg_hf.config.trust import admit_code
from pvg_hf.core.files import write_json, write_text
from pvg_hf.core.integrity import read_json
from pvg_hf.core.units import show_seconds
from pvg_hf.data.problems import GameProblems
from pvg_hf.experimental.sweep.cells import (
    Cell,
    SweepFolder,
    cell_recipe,
    list_cells,
    needs_pool,
    pool_recipe,
    sweep_folder,
)
from pvg_hf.experimental.sweep.measures import measure_cell
from pvg_hf.experimental.sweep.overview import expect_seconds, show_plan
from pvg_hf.experimental.sweep.result_tables import write_results
from pvg_hf.experimental.sweep.workers import default_workers, finish_cells, log_ends
from pvg_hf.game.limits import PartsFailedError
from pvg_hf.game.play import play
from pvg_hf.run.console import shows_progress
from pvg_hf.run.layout import schedule
from pvg_hf.run.lock import locked
from pvg_hf.run.resume import list_changes

logger = logging.getLogger(__name__)

# Keys that may change when a sweep is resumed: they do not affect finished cells.
_GROWING = ("sweep.levels", "sweep.seeds", "sweep.corrections", "output_dir", "logging")


class CellsFailedError(PartsFailedError):
    """
    Some cells of a sweep could not be played.

    Args:
        failed (`dict[Cell, Exception]`):
            The error of each failed cell.
        num_cells (`int`):
            Number of all cells.
        folder ([`SweepFolder`]):
            Folder with the results of the other cells.
    """

    def __init__(self, failed: dict[Cell, Exception], num_cells: int, folder: SweepFolder):
        cells: dict[Exception, list[str]] = {}  # without its reference, a cell has the reference's error
        for cell, error in failed.items():
            cells.setdefault(error, []).append(str(cell))
        reasons = "\n".join(f"- {'; '.join(names)}: {error}" for error, names in cells.items())
        super().__init__(
            f"{len(failed)} of {num_cells} cells have no result:\n{reasons}\nThe same command tries them again. The results "
            f"of the others are in {folder.root}."
        )
        self.failed = failed


def run_sweep(recipe: Recipe, *, num_workers: int | None = None, executor: Executor | None = None) -> SweepFolder:
    """
    Run or resume a sweep. Cells with a result are not played again.

    Args:
        recipe ([`~pvg_hf.config.Recipe`]):
            A recipe with a section `sweep`.
        num_workers (`int`, *optional*):
            Number of processes, see [`~pvg_hf.experimental.sweep.workers.default_workers`]. With 1, cells run in this process.
        executor ([`~concurrent.futures.Executor`], *optional*):
            Runs the cells instead, such as that of a cluster; its processes must share the sweep's folder.

    Returns:
        [`SweepFolder`]: the folder, with `summary.md`, tables and plots.

    Raises:
        ValueError: if a cell's recipe is invalid, or the folder is in use or belongs to another sweep.
        CellsFailedError: if cells could not be played; tables and plots of the others are written.
        WorkerDiedError: if a worker was killed; finished cells are kept.
    """
    folder, cells = sweep_folder(recipe), _checked_cells(recipe)
    num_workers = num_workers or default_workers(recipe)
    with locked(folder.root, is_main=True, user="The sweep in {root} is being run"):
        _begin(recipe, folder)
        finished = {cell for cell in cells if folder.result(cell).exists()}
        todo = [cell for cell in cells if cell not in finished]
        failed = _finish(recipe, todo, finished, num_workers, executor)
        write_results(recipe, folder)
    if failed:
        raise CellsFailedError(failed, len(cells), folder)
    return folder


def describe_sweep(recipe: Recipe, *, num_workers: int | None = None) -> str:
    """
    Check a sweep and describe its cells, its progress and the expected time. Nothing is written.

    Raises:
        RecipeError: if the recipe has mistakes; all of them are listed.
    """
    folder, cells = sweep_folder(recipe), _checked_cells(recipe)
    _check_folder(recipe, folder)
    return show_plan(recipe, cells, num_workers or default_workers(recipe))


def finish_cell(recipe: Recipe, cell: Cell) -> None:
    """Play a cell and write its result. A seed's reference cell first mints the seed's pool, if needed."""
    folder, played = sweep_folder(recipe), cell_recipe(recipe, cell)
    if cell == cell.reference and needs_pool(recipe):
        _mint(recipe, cell.seed)
    started = time.monotonic()
    if recipe.sweep.form == "game":
        play(played)
    else:
        _play_alone(played, ["warmup", "bootstrap", "verifier"])
    figures = measure_cell(played, folder.run(cell), folder.run(cell.reference))
    result = {"seed": cell.seed, "level": cell.level, "correction": cell.correction}
    result["seconds"] = time.monotonic() - started
    result["figures"] = {name: figure.to_dict() for name, figure in figures.items()}
    folder.result(cell).parent.mkdir(exist_ok=True)
    write_json(folder.result(cell), result)


def _mint(recipe: Recipe, seed: int) -> None:
    is_imported = recipe.bootstrap.import_from is not None
    _play_alone(pool_recipe(recipe, seed), ["warmup"] if is_imported else ["warmup", "bootstrap"])


def _play_alone(recipe: Recipe, phases: list[str]) -> None:
    """Play only the named phases of a game with one round."""
    for key in schedule(recipe):
        if key.name in phases:
            play(recipe, phase=key.name, round_index=key.round_index)


def _finish(
    recipe: Recipe, todo: list[Cell], finished: set[Cell], num_workers: int, executor: Executor | None
) -> dict[Cell, Exception]:
    """Play the remaining cells, and return the error of each failed one."""
    about = show_seconds(expect_seconds(recipe, todo, num_workers))
    logger.info(
        "%d cells to play, %d finished: about %s with %d worker(s)", len(todo), len(finished), about, num_workers
    )
    failed = {}
    ended = finish_cells(todo, finished, partial(finish_cell, recipe), num_workers=num_workers, executor=executor)
    with tqdm(total=len(todo), desc=recipe.name, unit="cell", disable=not shows_progress(recipe)) as bar:
        for cell, error in log_ends(ended, len(todo), partial(_headline, recipe)):
            failed |= {cell: error} if error else {}
            bar.update()
    return failed


def _headline(recipe: Recipe, cell: Cell) -> str:
    result = read_json(sweep_folder(recipe).result(cell))
    accuracy = result["figures"]["pair_accuracy"]["value"]
    return f"clean pair accuracy {accuracy:.3f} in {show_seconds(result['seconds'])}"


def _begin(recipe: Recipe, folder: SweepFolder) -> None:
    _check_folder(recipe, folder)
    write_text(folder.recipe, yaml.safe_dump(recipe.to_dict(), sort_keys=False))


def _check_folder(recipe: Recipe, folder: SweepFolder) -> None:
    """
    Check that the folder is new or belongs to this sweep.

    Raises:
        ValueError: if another sweep was started in it.
    """
    if not folder.recipe.exists():
        return
    lines = list_changes(load_recipe(folder.recipe).to_dict(), recipe.to_dict(), _GROWING)
    if lines:
        raise ValueError(
            f"The sweep `{recipe.name}` was started with another recipe:\n"
            + "\n".join(lines)
            + "\nGive this one another "
            "`name`. Only levels, seeds and corrections may be added or removed."
        )


def _checked_cells(recipe: Recipe) -> list[Cell]:
    """
    List the cells of a sweep, after checks of all their recipes.

    Raises:
        RecipeError: if there are mistakes; all of them are listed.
        UntrustedCodeError: if the recipe came with a pulled run and names code that the user has not trusted yet.
    """
    if recipe.sweep is None:
        raise RecipeError(
            "The recipe has no section `sweep`, which says what is varied; `sweep: {}` uses the defaults."
        )
    for line in admit_code(recipe):
        logger.info("The recipe runs %s", line)
    cells = list_cells(recipe)
    mistakes = dict.fromkeys(_mistakes(recipe, cells))
    if mistakes:
        raise RecipeError(list_mistakes(list(mistakes)))
    return cells


def _mistakes(recipe: Recipe, cells: list[Cell]) -> Iterator[str]:
    """Mistakes in the section `noise`, in each cell's recipe, and in a game of each correction at its highest level."""
    noise = recipe.noise
    if noise.rho0 or noise.rho1 or noise.checker is not None:
        yield "`noise` states rates or a checker, but its rates are what `sweep.levels` varies: leave them out."
        return
    if not recipe.verifier.traits.learns_from_pairs:
        yield "A sweep varies the noise of labels of pairs, which `verifier.kind: score` does not learn from; it needs `bradley_terry`."
        return
    problems = GameProblems.load(cell_recipe(recipe, cells[0], takes_pool=False))
    for cell in {cell.correction: cell for cell in sorted(cells)}.values():
        try:
            yield from check_recipe(cell_recipe(recipe, cell, takes_pool=False), problems)
        except RecipeError as err:
            yield f"At level {cell.level:g} with `{cell.correction}`: {err}"
