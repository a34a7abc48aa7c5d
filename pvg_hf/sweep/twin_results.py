"""What structured and random false positives came to: a table, the steps, a plot."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from pvg_hf.config import Recipe
from pvg_hf.evaluation.report.plots.style import BLUE, GREY, VERMILLION, Plot, legend_beside, new_canvas, tidy
from pvg_hf.game.folder import write_text
from pvg_hf.sweep.plots import save_plot
from pvg_hf.sweep.twins import RANDOM, STRUCTURED, Twins, helpful_accuracy, twins_table

STYLES = {
    STRUCTURED: {"color": VERMILLION, "linestyle": "--"},
    RANDOM: {"color": BLUE, "linestyle": "-"},
}


def write_twins(recipe: Recipe, twins: Sequence[Twins]) -> Path:
    """Write `summary.md`, `steps.csv` and the plot `helpful-accuracy` into `OUTPUT_DIR/NAME`, whose path is returned."""
    folder = Path(recipe.output_dir) / recipe.name
    folder.mkdir(parents=True, exist_ok=True)
    steps = helpful_accuracy(twins)
    rates = ", ".join(f"{pair.rate:.3f} (seed {pair.seed})" for pair in twins)
    text = f"# {recipe.name}\n\nFalse positives on the base prover's solutions, of both checkers: {rates}.\n\n"
    write_text(folder / "summary.md", f"{text}{twins_table(twins)}\n")
    write_text(folder / "steps.csv", steps.to_csv(index=False))
    if len(steps):
        save_plot(plot_twins(steps), folder)
    return folder


def plot_twins(steps: pd.DataFrame) -> Plot:
    """
    Args:
        steps (`pd.DataFrame`):
            As [`~pvg_hf.sweep.twins.helpful_accuracy`] makes it. Thin lines are seeds, thick ones their mean.
    """
    canvas = new_canvas(7.2, 3.6)
    axes = canvas.subplots()
    for checker, rows in steps.groupby("checker", sort=False):
        of_seeds = rows.pivot(index=["round", "step"], columns="seed", values="smoothed")
        for number, (_, part) in enumerate(of_seeds.groupby("round")):  # a line for each round: each begins anew
            x = part.index.get_level_values("step")
            axes.plot(x, part, linewidth=0.8, alpha=0.45, **STYLES[checker])
            label = None if number else f"{checker} false positives"
            axes.plot(x, part.mean(axis=1), linewidth=2.2, label=label, **STYLES[checker])
    for start in steps.groupby("round")["step"].min().iloc[1:]:
        axes.axvline(start, color=GREY, linewidth=1, linestyle=":")
    axes.set_xlabel("RL step of the helpful role, through the rounds")
    axes.set_ylabel("helpful accuracy (share)")
    axes.set_ylim(0, 1)
    tidy(axes)
    legend_beside(axes)
    caption = (
        f"{steps['seed'].nunique()} seed(s): thin lines; the thick one is their mean. Moving averages of the steps."
    )
    return Plot("helpful-accuracy", "Structured and random false positives", caption, canvas)
