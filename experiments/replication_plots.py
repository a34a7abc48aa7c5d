"""
Plots of replicated recipes, in the style of the report: means over seeds, and training curves with a line per seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from pvg_hf.core.figure import Figure
from pvg_hf.experimental.attacks.attack_curves import TERMS as ATTACK_TERMS
from pvg_hf.experimental.attacks.attack_curves import attack_judgements, draw_attacks
from pvg_hf.experimental.sweep.seeds import mean_over_seeds
from pvg_hf.report.plots.dynamics import TERMS as TRAINING_TERMS
from pvg_hf.report.plots.over_rounds import TERMS as ROUND_TERMS
from pvg_hf.report.plots.over_rounds import draw_rounds
from pvg_hf.report.plots.pool_matrix import TERMS as POOL_TERMS
from pvg_hf.report.plots.pool_matrix import draw_pool_map
from pvg_hf.report.plots.style import BLUE, GREY, ROLE_STYLES, VERMILLION, Plot, legend_below, new_canvas, tidy
from pvg_hf.report.tables import pool_cells
from pvg_hf.run.read import RunData

if TYPE_CHECKING:
    from experiments.replication_tables import Contrast


def plot_replication(name: str, runs: Sequence[RunData]) -> Iterator[Plot]:
    """
    Plot means over seeds with 95 % intervals by Student's t.

    Args:
        name: Name of the recipe, with which the names of the plots begin.
        runs: A run per seed. Rounds that not every run has evaluated are left out.
    Yields: [`Plot`]: `NAME-rounds` (accuracy, completeness, soundness and pair accuracy by round), `NAME-training`
        (both roles' accuracy by RL step, a line per seed), `NAME-pools` (verifiers x pools) and, if there are any,
        `NAME-attacks` (the attackers of all seeds). None without a round that all runs have.
    """
    begun = [run for run in runs if run.evaluated]
    if not begun:
        return
    num_rounds = min(len(run.evaluated) for run in begun)
    seeds = f"Means over {len(begun)} seed(s), with 95 % intervals by Student's t."

    def mean_figure(figure: str, index: int) -> Figure:
        return mean_over_seeds([run.evaluated[index].figure(figure).value for run in begun])

    yield Plot(
        f"{name}-rounds",
        "Results round by round",
        seeds,
        draw_rounds(mean_figure, list(range(num_rounds))),
        ROUND_TERMS,
    )
    training = plot_training(f"{name}-training", {name: begun})
    if training is not None:
        yield training
    of_runs = [pool_cells(run, "accepted") for run in begun]
    cells = {
        (verifier, pool): mean_over_seeds([of_run[verifier, pool].value for of_run in of_runs])
        for verifier, pool in of_runs[0]
        if max(verifier, pool) < num_rounds
        and all((verifier, pool) in of_run and of_run[verifier, pool].value is not None for of_run in of_runs)
    }
    if cells:
        yield Plot(
            f"{name}-pools", "Does a later verifier accept fewer mistakes?", seeds, draw_pool_map(cells), POOL_TERMS
        )
    attacks = attack_judgements(begun)
    if attacks:
        yield Plot(
            f"{name}-attacks",
            "How soon does a fresh attacker fool the verifier?",
            f"Attackers of {len(begun)} seed(s).",
            draw_attacks(attacks),
            ATTACK_TERMS,
        )


def plot_contrast(contrast: Contrast) -> Plot:
    """
    Plot a comparison of two recipes: a row per figure, with both means on the left and their difference on the right.

    Figures with a value beyond -1 or 1 are left out: numbers of steps or tokens would need an axis of their own.
    """
    shown = [name for name, sides in contrast.values.items() if np.nanmax(np.abs(sides)) <= 1.0]
    rows = np.arange(len(shown))[::-1]  # the first one at the top
    canvas = new_canvas(9.0, 1.6 + 0.24 * len(shown))
    left, right = canvas.subplots(1, 2, sharey=True)
    means = [contrast.means(name) for name in shown]
    looks = {"color": BLUE, "marker": "o"}, {"color": VERMILLION, "marker": "s", "markerfacecolor": "none"}
    for side, (name, look) in enumerate(zip(contrast.names, looks, strict=True)):
        left.plot([of_row[side].value for of_row in means], rows, linestyle="none", markersize=5.5, label=name, **look)
    for row, (_, _, difference) in zip(rows, means, strict=True):
        right.plot(difference.value, row, color="black", marker="D", markersize=4.5)
        if difference.low is not None:
            right.plot([difference.low, difference.high], [row, row], color="black", linewidth=1.4)
    right.axvline(0.0, color=GREY, linewidth=1, linestyle=":")
    right.set_xlim(-1.05, 1.05)  # intervals of few seeds can be wider than all differences that are possible
    left.set_yticks(rows, shown)
    left.set_ylim(-0.7, len(shown) - 0.3)
    right.tick_params(axis="y", length=0)
    for axes, title in ((left, "means over seeds"), (right, "the first less the second, paired by seed")):
        tidy(axes)
        axes.set_title(title, fontsize=10)
    legend_below(canvas)
    return Plot(
        f"{contrast.names[0]}-against-{contrast.names[1]}",
        "Two recipes, seed by seed",
        f"After round {contrast.round_index}; differences paired by seed, with 95 % intervals by Student's t, cut at"
        " -1 and 1.",
        canvas,
    )


NEWEST_WEIGHT = 0.2
"""Weight of the newest step in the drawn averages: one for all recipes, whatever their stop rules average over."""


def plot_training(name: str, recipes: Mapping[str, Sequence[RunData]]) -> Plot | None:
    """
    Plot the accuracy of the training solutions of both roles by RL step, as moving averages.

    Args:
        name: Name of the plot.
        recipes: The runs of each recipe, by its name; a recipe is a row of panels.
    Returns: [`Plot`], *optional*: a column per round; `None` if no round has been trained in all runs.
    """
    numbers = [sum(len(data.steps) > 0 for data in run.rounds) for runs in recipes.values() for run in runs]
    num_rounds = min(numbers, default=0)
    if not num_rounds:
        return None
    canvas = new_canvas(1.0 + 2.6 * num_rounds, 0.8 + 2.3 * len(recipes))
    grid = canvas.subplots(len(recipes), num_rounds, sharex=True, sharey=True, squeeze=False)
    for row, (recipe_name, runs) in zip(grid, recipes.items(), strict=True):
        for index, axes in enumerate(row):
            for run in runs:
                _draw_accuracy(axes, run.rounds[index].steps)
            axes.set_title(f"{recipe_name}, round {index}" if len(recipes) > 1 else f"round {index}", fontsize=10)
            tidy(axes)
        row[0].set_ylabel("accuracy (share)")
    for axes in grid[-1]:
        axes.set_xlabel("RL step")
    grid[0, 0].set_ylim(-0.02, 1.02)
    legend_below(canvas)
    seeds = ", ".join(dict.fromkeys(str(run.recipe.seed) for runs in recipes.values() for run in runs))
    caption = (
        f"A line for each of the seeds {seeds}, which ends with a dot where the training stopped: exponential moving"
        f" averages of single steps, the newest with the weight {NEWEST_WEIGHT}. All on training problems."
    )
    return Plot(name, "How the provers were trained", caption, canvas, {"accuracy": TRAINING_TERMS["accuracy"]})


def _draw_accuracy(axes: Axes, steps: pd.DataFrame) -> None:
    for role, style in ROLE_STYLES.items():
        column = f"accuracy/{role}"
        if column not in steps:
            continue
        values = steps[["step", column]].dropna()
        averages = values[column].ewm(alpha=NEWEST_WEIGHT, adjust=False).mean()
        look = {key: style[key] for key in ("color", "linestyle", "label")}
        axes.plot(values["step"], averages, linewidth=1.5, **look)
        axes.plot(values["step"][-1:], averages[-1:], "o", color=style["color"], markersize=4)
