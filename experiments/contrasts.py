"""Compares two replicated recipes seed by seed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from experiments.replicate_figures import names_in, values_of
from pvg_hf.core.figure import Figure
from pvg_hf.core.markdown import markdown_table
from pvg_hf.experimental.sweep.seeds import mean_over_seeds, show_figure
from pvg_hf.report.pool_tables import pool_cells
from pvg_hf.run.read import RunData


@dataclass(frozen=True)
class Contrast:
    """
    Figures of two recipes after the same round, paired by seed.

    Args:
        round_index (`int`):
            The round.
        names (`tuple[str, str]`):
            Names of the two recipes.
        values (`dict[str, tuple[np.ndarray, np.ndarray]]`):
            By name of a figure, the values of both recipes: arrays of shape `(num_seeds,)`, `nan` where a seed has none.
            At least one seed has both values.
    """

    round_index: int
    names: tuple[str, str]
    values: dict[str, tuple[np.ndarray, np.ndarray]]

    def means(self, name: str) -> tuple[Figure, Figure, Figure]:
        """Means over seeds of a figure: of the first recipe, of the second, and of the first less the second."""
        ours, theirs = self.values[name]
        return mean_over_seeds(ours), mean_over_seeds(theirs), mean_over_seeds(ours - theirs)


def contrast_recipes(runs: Sequence[RunData], others: Sequence[RunData]) -> Contrast:
    """
    Compare two recipes after the last round that all of their seeds have evaluated.

    Args:
        runs (`Sequence[RunData]`), others (`Sequence[RunData]`):
            Runs of either recipe. Only seeds that both have are compared.

    Raises:
        ValueError: if they have no seed in common with an evaluated round.
    """
    sides = [{run.recipe.seed: run for run in side if run.evaluated} for side in (runs, others)]
    seeds = [seed for seed in sides[0] if seed in sides[1]]
    if not seeds:
        raise ValueError("The two recipes have no seed in common with an evaluated round.")
    paired = [side[seed] for side in sides for seed in seeds]
    last = min(run.evaluated[-1].round_index for run in paired)
    # Verifiers are compared on the provers that both recipes have by then, and best-of-n at one n.
    pools = set.intersection(*({pool for _, pool in pool_cells(run, "accepted")} for run in paired))
    found = values_of(paired, pools={pool for pool in pools if pool <= last})
    values = {}
    for name in names_in(found):
        of_run = np.array([of_figures.get((name, last), np.nan) for of_figures in found])
        ours, theirs = of_run[: len(seeds)], of_run[len(seeds) :]
        if not np.isnan(ours - theirs).all():
            values[name] = ours, theirs
    first, second = (side[seeds[0]].recipe.name.removesuffix(f"-seed-{seeds[0]}") for side in sides)
    return Contrast(last, (first, second), values)


def contrast_table(contrast: Contrast) -> str:
    """Return a comparison as a Markdown table: a row per figure, with both means and the mean difference."""
    rows = [[f"round {contrast.round_index}", *contrast.names, "difference"]]
    rows += [[name, *map(show_figure, contrast.means(name))] for name in contrast.values]
    return markdown_table(rows)
