"""The plan of a sweep: number of cells, and expected time."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from pvg_hf.check.round_plans import plan_rounds
from pvg_hf.config import Recipe
from pvg_hf.core.integrity import read_json
from pvg_hf.core.units import show_seconds
from pvg_hf.data.problems import GameProblems
from pvg_hf.experimental.sweep.cells import Cell, cell_recipe, list_cells, needs_pool, sweep_folder
from pvg_hf.run.environment import num_cores
from pvg_hf.run.layout import ROUND_PHASES


def show_plan(recipe: Recipe, cells: Sequence[Cell], num_workers: int) -> str:
    """Describe a sweep in a few lines: its cells, how many are left, and the time for these."""
    folder = sweep_folder(recipe)
    todo = [cell for cell in cells if not folder.result(cell).exists()]
    levels = sorted({cell.level for cell in cells})
    counts = Counter(cell.correction for cell in cells)
    seconds = expect_seconds(recipe, todo, num_workers)
    how = "as the finished ones took" if _cell_seconds(recipe) else "rough: within a factor of about 3"
    return "\n".join(
        [
            f"Sweep    {folder.root}",
            f"Form     {_describe_form(recipe)}",
            f"Levels   {recipe.sweep.vary} {', '.join(f'{level:g}' for level in levels)}",
            f"Seeds    {', '.join(map(str, recipe.sweep.seeds))}",
            f"Cells    {len(cells)}: {', '.join(f'{number} {name}' for name, number in counts.items())}",
            f"To play  {len(todo)} cells with {num_workers} worker(s), {show_seconds(seconds)} ({how})",
        ]
    )


def expect_seconds(recipe: Recipe, todo: Sequence[Cell], num_workers: int) -> float:
    """Expected seconds for the remaining cells, from finished ones or else from the game's plan."""
    if not todo:
        return 0.0
    measured = _cell_seconds(recipe)
    if measured:
        return len(todo) * sum(measured) / len(measured) / num_workers
    with _threads(max(1, num_cores() // num_workers)):
        played = cell_recipe(recipe, todo[0], takes_pool=False)
        before, *phases = phase_seconds(played, recipe.sweep.form)
    pools = len({cell.seed for cell in todo}) * before if needs_pool(recipe) else 0.0
    return (pools + len(todo) * sum(phases)) / num_workers


def phase_seconds(played: Recipe, form: str) -> Iterator[float]:
    """Yield the planned seconds before the rounds, and then of each phase of a cell."""
    plans = plan_rounds(played, GameProblems.load(played))
    yield sum(plans[0].seconds(name) for name in plans[0].early)
    for plan in plans:
        for name in ROUND_PHASES if form == "game" else ("verifier",):
            yield len(plan.indices) * plan.seconds(name)


def _cell_seconds(recipe: Recipe) -> list[float]:
    folder = sweep_folder(recipe)
    files = [folder.result(cell) for cell in list_cells(recipe)]
    return [read_json(file)["seconds"] for file in files if file.exists()]


def _describe_form(recipe: Recipe) -> str:
    if recipe.sweep.form == "game":
        return f"whole games of {recipe.num_rounds} round(s)"
    return f"the first verifier alone, {recipe.verifier.max_steps} steps"


@contextmanager
def _threads(number: int) -> Iterator[None]:
    # The plan measures this machine, and must use as many threads as a worker will have.
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
