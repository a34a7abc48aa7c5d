"""Training curves of replicated recipes: a line per seed and role."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes

from pvg_hf.report.plots.dynamics import TERMS
from pvg_hf.report.plots.style import ROLE_STYLES, Plot, legend_below, new_canvas, tidy
from pvg_hf.run.read import RunData

NEWEST_WEIGHT = 0.2
"""Weight of the newest step in the drawn averages: one for all recipes, whatever their stop rules average over."""


def plot_training(name: str, recipes: Mapping[str, Sequence[RunData]]) -> Plot | None:
    """
    Plot the accuracy of the training solutions of both roles by RL step, as moving averages.

    Args:
        name (`str`):
            Name of the plot.
        recipes (`Mapping[str, Sequence[RunData]]`):
            The runs of each recipe, by its name; a recipe is a row of panels.

    Returns:
        [`Plot`], *optional*: a column per round; `None` if no round has been trained in all runs.
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
        f"A line for each of the seeds {seeds}, which ends with a dot where the training stopped: exponential moving averages of "
        f"single steps, the newest with the weight {NEWEST_WEIGHT}. All on training problems."
    )
    return Plot(name, "How the provers were trained", caption, canvas, {"accuracy": TERMS["accuracy"]})


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
