"""The cells of a sweep, and the recipe of each cell."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pvg_hf.config import Recipe, load_recipe
from pvg_hf.config.recipe import merge
from pvg_hf.config.sections import PLAIN, POINTWISE
from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.figure import Figure
from pvg_hf.core.roles import Role
from pvg_hf.run.jobs import JobFolder
from pvg_hf.run.layout import RunFolder, pool_file

_BRADLEY_TERRY, _CROSS_ENTROPY = {"loss": "bradley_terry"}, {"loss": "cross_entropy"}
_ANY_LABELS = {"data": {"pairs": "all"}}  # pairs that are chosen independently of their noisy labels
SETTINGS: dict[str, dict[str, Any]] = {
    **{name: {"verifier": {**_BRADLEY_TERRY, "correction": name}} for name in ("smoothing", "forward", "backward")},
    PLAIN: {"verifier": {**_BRADLEY_TERRY, "correction": "none"}},
    "exact": {"verifier": {**_BRADLEY_TERRY, "correction": "exact"}, **_ANY_LABELS},
    POINTWISE: {"verifier": {**_CROSS_ENTROPY, "correction": "none"}},
    "pointwise_all": {"verifier": {**_CROSS_ENTROPY, "correction": "none"}, **_ANY_LABELS},
    "pointwise_forward": {"verifier": {**_CROSS_ENTROPY, "correction": "forward"}, **_ANY_LABELS},
    "pointwise_backward": {"verifier": {**_CROSS_ENTROPY, "correction": "backward"}, **_ANY_LABELS},
}
# On clean labels, these corrected losses equal the plain one on the same pairs.
_CLEAN_EQUIVALENTS = {
    **dict.fromkeys(("smoothing", "forward", "backward"), PLAIN),
    **dict.fromkeys(("pointwise_forward", "pointwise_backward"), "pointwise_all"),
}
# A worker's game does not publish or report, and no watchdog ends it: a verifier that learned nothing is a result.
_CELL_OVERRIDES = {
    "sweep": None,
    "num_rounds": 1,
    "resume_from_hub": None,
    "hub": {"push": False},
    "logging": {"report_to": [], "progress": False},
    "watchdogs": {"min_pair_accuracy": 0.0},
}


@dataclass(frozen=True)
class CellResult:
    """Fields of a cell's result that are read again."""

    seconds: float
    figures: dict[str, Figure]


@dataclass(frozen=True, order=True)
class Cell:
    """
    One training or game of a sweep.

    Args:
        seed (`int`): Seed of the whole cell.
        level (`float`): Rate of wrong labels, in [0, 1).
        correction (`str`): A key of `SETTINGS`.
    """

    seed: int
    level: float
    correction: str

    @property
    def name(self) -> str:
        return f"seed-{self.seed}-level-{self.level:g}-{self.correction}"

    @property
    def trained(self) -> "Cell":
        """The cell with the same training, which is played once for both."""
        return (
            self if self.level else replace(self, correction=_CLEAN_EQUIVALENTS.get(self.correction, self.correction))
        )

    def __str__(self) -> str:
        return f"seed {self.seed}, level {self.level:g}, {self.correction}"


def clean_cell(seed: int) -> Cell:
    """
    The cell of a seed that learns from clean labels by the plain loss; it mints the seed's pool, and others are
    compared with it.
    """
    return Cell(seed, 0.0, PLAIN)


def list_cells(recipe: Recipe) -> list[Cell]:
    """List the distinct trainings of a sweep: first each seed's clean reference, then level by level."""
    sweep = recipe.sweep
    wanted = {
        Cell(seed, level, correction).trained
        for seed in sweep.seeds
        for level in sweep.levels
        for correction in sweep.corrections
    }
    references = [clean_cell(seed) for seed in sorted(sweep.seeds)]
    others = sorted(wanted - set(references), key=lambda cell: (cell.level, cell.correction, cell.seed))
    return [*references, *others]


def sweep_folder(recipe: Recipe) -> JobFolder:
    return JobFolder(Path(recipe.output_dir) / recipe.name)


def pool_run(recipe: Recipe, seed: int) -> RunFolder:
    """The run that makes a seed's players and solutions."""
    return sweep_folder(recipe).run(f"seed-{seed}-pool")


def pool_recipe(recipe: Recipe, seed: int) -> Recipe:
    """Recipe of the run that mints a seed's solutions with clean labels, once for all its cells."""
    run = pool_run(recipe, seed).root
    changes = {"name": run.name, "output_dir": str(run.parent), "seed": seed, "noise": {}}
    return load_recipe(merge({**recipe.to_dict(), "noise": {}}, merge(_CELL_OVERRIDES, changes)))


def needs_pool(recipe: Recipe) -> bool:
    """Whether each seed needs a run that mints solutions or makes players before its cells."""
    return recipe.bootstrap.import_from is None or any(player.is_made for player in recipe.players.values())


def cell_recipe(recipe: Recipe, cell: Cell, *, takes_pool: bool = True) -> Recipe:
    """
    Recipe of a cell.

    Args:
        takes_pool: Whether to name the solutions and players that the seed's run makes; they need not exist yet.
    Raises `RecipeError` if the level or the correction is not compatible with the rest of the recipe.
    """
    run = sweep_folder(recipe).run(cell.name).root
    num_rounds = recipe.num_rounds if recipe.sweep.form == "game" else 1
    changes = {"name": run.name, "output_dir": str(run.parent), "seed": cell.seed, "num_rounds": num_rounds}
    made = _pool_changes(recipe, pool_run(recipe, cell.seed)) if takes_pool else {}
    values = recipe.to_dict()
    for change in (_CELL_OVERRIDES, changes, SETTINGS[cell.correction], made):
        values = merge(values, change)
    return load_recipe(merge(values, {"noise": {recipe.sweep.vary: cell.level}}))


def _pool_changes(recipe: Recipe, pool: RunFolder) -> dict[str, Any]:
    """Changes to a recipe that make it use the players and solutions of the seed's run."""
    changes: dict[str, Any] = {}
    for name, player in recipe.players.items():
        if player.is_made:
            changes[name] = {"model": str(pool.models / name), "revision": None, "scratch": None, "warmup": None}
    if recipe.bootstrap.import_from is None:
        changes["bootstrap"] = {"import_from": str(pool.pool(BASE_ROUND) / pool_file(Role.BASE))}
    return changes
