"""Summarises the games of a replicated recipe as means over seeds, and compares two recipes seed by seed."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from experiments.contrasts import contrast_recipes, contrast_table
from experiments.raw_figures import raw_figures
from experiments.replicate_figures import names_in, values_of
from experiments.replication import replicate_recipe
from experiments.replication_plots import plot_contrast, plot_replication
from experiments.training_plots import plot_training
from pvg_hf.config import Recipe
from pvg_hf.core.files import write_json
from pvg_hf.core.markdown import markdown_table
from pvg_hf.experimental.sweep.level_plots import save_plot
from pvg_hf.experimental.sweep.seeds import (
    mean_over_seeds,
    seeds_attacks_table,
    seeds_pools_table,
    seeds_table,
    show_figure,
)
from pvg_hf.run.layout import RunFolder
from pvg_hf.run.read import RunData, load_run


def tabulate_replication(recipe: Recipe, seeds: Sequence[int], *, against: str | None = None) -> str:
    """
    Tabulate the games that have begun, and write `OUTPUT_DIR/NAME-replication.json` and plots.

    Args:
        recipe ([`~pvg_hf.config.Recipe`]), seeds (`Sequence[int]`):
            As in [`replicate`].
        against (`str`, *optional*):
            Name of another replicated recipe in the same `output_dir`, to compare with seed by seed.

    Returns:
        `str`: Markdown tables: means over seeds by round, the comparison, if any, figures of each seed, and each seed's
        verifiers x pools.

    Raises:
        ValueError: if no game has an evaluated round.
    """
    begun, runs = _begun_runs(recipe, seeds)
    write_json(Path(recipe.output_dir) / f"{recipe.name}-replication.json", [raw_figures(run) for run in runs])
    for plot in plot_replication(recipe.name, runs):
        save_plot(plot, Path(recipe.output_dir))
    parts = [f"Means over {len(runs)} seed(s) with 95 % intervals by Student's t:", means_table(runs)]
    if against is not None:
        _, others = _begun_runs(replace(recipe, name=against), seeds)
        contrast = contrast_recipes(runs, others)
        save_plot(plot_contrast(contrast), Path(recipe.output_dir))
        training = plot_training(f"{recipe.name}-against-{against}-training", {recipe.name: runs, against: others})
        if training is not None:
            save_plot(training, Path(recipe.output_dir))
        parts += [
            f"`{recipe.name}` and `{against}` after the last round that both have evaluated, and their difference, paired by seed:",
            contrast_table(contrast),
        ]
    attacks = seeds_attacks_table(runs)
    if attacks is not None:
        parts += ["Fresh attackers of all seeds:", attacks]
    parts += [
        "Each seed:",
        seeds_table(begun),
        "Share of sneaky mistakes accepted at 95 % completeness, by verifier and prover:",
        seeds_pools_table(begun),
    ]
    return "\n\n".join(parts)


def _begun_runs(recipe: Recipe, seeds: Sequence[int]) -> tuple[list[Path], list[RunData]]:
    """Folders and contents of the games that have begun, in the order of the seeds."""
    roots = [RunFolder.of(replicate_recipe(recipe, seed)).root for seed in dict.fromkeys(seeds)]
    begun = [root for root in roots if RunFolder(root).recipe.exists()]
    runs = [load_run(root, solution_columns=["problem_id"]) for root in begun]
    if not any(run.evaluated for run in runs):
        raise ValueError(f"No seed of `{recipe.name}` has an evaluated round in {recipe.output_dir} yet.")
    return begun, runs


def means_table(runs: Sequence[RunData]) -> str:
    """
    Return a Markdown table of means over seeds: a row per figure, a column per round, and the change over all rounds.

    Seeds that have not evaluated a round, or lack a figure in it, are left out of its mean; `n` is the number of seeds.
    The change is that from the first to the last round of the table within each seed, which removes the spread that both
    rounds share.

    Args:
        runs (`Sequence[RunData]`):
            Runs of one recipe.
    """
    values = values_of(runs)
    rounds = sorted({index for found in values for _, index in found})
    rows = [["", *(f"round {index}" for index in rounds)]]
    if len(rounds) > 1:
        rows[0].append(f"round {rounds[-1]} less round {rounds[0]}")
    for name in names_in(values):
        columns = [[found.get((name, index), np.nan) for found in values] for index in rounds]
        if len(rounds) > 1:
            columns.append([last - first for first, last in zip(columns[0], columns[-1], strict=True)])
        rows.append([name, *(show_figure(mean_over_seeds(column)) for column in columns)])
    return markdown_table(rows)
