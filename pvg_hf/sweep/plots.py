"""Plots of a sweep, in the look of the report, as vectors and as PNG."""

from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from pvg_hf.evaluation.report.plots.style import GREY, Plot, draw_figures, legend_below, new_canvas, round_style, tidy
from pvg_hf.evaluation.seeds import mean_over_seeds
from pvg_hf.sweep.fits import DEGREES, fit_levels
from pvg_hf.sweep.measures import CHANCE, CHANGE, MEASURES

_FIT_LINES = {"linear": ":", "quadratic": "-"}
_NUM_POINTS = 100  # of a fitted curve


def plot_sweep(vary: str, table: pd.DataFrame) -> Iterator[Plot]:
    """
    Args:
        vary (`str`):
            The rate that the levels are.
        table (`pd.DataFrame`):
            As [`~pvg_hf.sweep.results.cell_table`] makes it.

    Yields:
        [`Plot`]: `levels`, every measure against the level, and `fits`, its change from the clean reference with the fits.
    """
    names = [name for name in MEASURES if name in table]
    seeds = f"Means over {table['seed'].nunique()} seed(s), with 95 % intervals by Student's t."
    for name, title, suffix in (
        ("levels", "Noise levels", ""),
        ("fits", "Changes from the clean verifier", CHANGE),
    ):
        canvas = new_canvas(3.6 * min(3, len(names)), 3.2 * -(-len(names) // 3) + 0.6)
        grid = canvas.subplots(-(-len(names) // 3), min(3, len(names)), squeeze=False).flatten()
        for axes, measure in zip(grid, names):
            _draw(axes, table, measure, suffix)
            axes.set_xlabel(f"rate of wrong labels ({vary})")
        for axes in grid[len(names) :]:
            axes.remove()
        legend_below(canvas)
        yield Plot(name, title, seeds, canvas)


def _draw(axes: Axes, table: pd.DataFrame, measure: str, suffix: str) -> None:
    column = measure + suffix
    corrections = table["correction"].unique()
    width = 0.006 * (table["level"].max() or 1)
    for position, correction in enumerate(corrections):
        rows = table[(table["correction"] == correction) & table[column].notna()]
        by_level = rows.groupby("level")[column]
        style = round_style(position, len(corrections)) | {"label": correction}
        style |= {"linestyle": "none"} if suffix else {}
        shift = width * (position - (len(corrections) - 1) / 2)
        draw_figures(
            axes, list(by_level.groups), [mean_over_seeds(values) for _, values in by_level], shift=shift, **style
        )
        if suffix:
            _draw_fits(axes, rows, column, color=style["color"])
    axes.set_title(("change of " if suffix else "") + MEASURES[measure].title, fontsize=10)
    tidy(axes)
    if suffix or MEASURES[measure].floor == CHANCE:
        axes.axhline(0 if suffix else CHANCE, color=GREY, linewidth=1, linestyle=":")


def _draw_fits(axes: Axes, rows: pd.DataFrame, column: str, **style) -> None:
    levels = np.linspace(rows["level"].min(), rows["level"].max(), _NUM_POINTS) if len(rows) else np.array([])
    for kind, degree in DEGREES.items():
        fit = fit_levels(rows["level"], rows[column], rows["seed"], degree) if len(rows) else None
        if fit is not None:
            axes.plot(levels, fit(levels), linestyle=_FIT_LINES[kind], linewidth=1.2, label=f"{kind} fit", **style)


def save_plot(plot: Plot, folder: Path) -> None:
    """Write a plot as `NAME.pdf`, `NAME.svg` and `NAME.png`; equal plots give equal bytes."""
    with mpl.rc_context({"svg.hashsalt": plot.name, "pdf.fonttype": 42}):  # TrueType, which journals ask for
        plot.canvas.savefig(folder / f"{plot.name}.pdf", metadata={"CreationDate": None})
        plot.canvas.savefig(folder / f"{plot.name}.svg", metadata={"Date": None})
    (folder / f"{plot.name}.png").write_bytes(plot.to_png())
