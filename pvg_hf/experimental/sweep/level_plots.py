"""Plots of a sweep in the style of the report, as vector graphics and PNG."""

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from pvg_hf.config.sections import Correction
from pvg_hf.experimental.sweep.fits import DEGREES, fit_levels
from pvg_hf.experimental.sweep.measures import CHANCE, CHANGE, DISTANCE, MEASURES
from pvg_hf.experimental.sweep.seeds import mean_over_seeds
from pvg_hf.report.plots.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    SKY,
    VERMILLION,
    Plot,
    Style,
    draw_figures,
    legend_below,
    new_canvas,
    tidy,
)

_FIT_LINES = {"linear": ":", "quadratic": "-"}
_NUM_POINTS = 100  # points of a fitted curve
_COLORS = (VERMILLION, ORANGE, BLUE, SKY, GREEN, "#000000", "#CC79A7", GREY)
_LINES = ("--", "-.", "-", ":", "-", "-.", "--", ":")
STYLES: dict[str, Style] = {
    name: {"color": color, "marker": marker, "linestyle": line, "label": name}
    for name, color, marker, line in zip(get_args(Correction), _COLORS, "sDo^vP*X", _LINES)
}


def plot_sweep(vary: str, table: pd.DataFrame) -> Iterator[Plot]:
    """
    Plot all measures of a sweep.

    Args:
        vary: Name of the varied rate, e.g. `rho0`.
    Yields: [`Plot`]: `levels` (measures by level), and `fits` (changes from the clean reference by level, with fitted
        curves).
    """
    names = [name for name in MEASURES if name in table]
    seeds = f"Means over {table['seed'].nunique()} seed(s), with 95 % intervals by Student's t."
    titles = {"levels": ("Noise levels", ""), "fits": ("Changes from the clean verifier", CHANGE)}
    for name, (title, suffix) in titles.items():
        num_columns = 2 if len(names) == 4 else 3
        num_rows = -(-len(names) // num_columns)
        canvas = new_canvas(3.6 * num_columns, 3.0 * num_rows + 0.6)
        grid = canvas.subplots(num_rows, num_columns, squeeze=False).flatten()
        for axes, measure in zip(grid, names):
            _draw(axes, table, measure, suffix)
            axes.set_xlabel(f"rate of wrong labels ({vary})", fontsize=9)
        for axes in grid[len(names) :]:
            axes.remove()
        legend_below(canvas)
        yield Plot(name, title, seeds, canvas)


def _draw(axes: Axes, table: pd.DataFrame, measure: str, suffix: str) -> None:
    column = measure + suffix
    corrections = table["correction"].unique()
    width = 0.012 * (table["level"].max() or 1)
    for position, correction in enumerate(corrections):
        rows = table[(table["correction"] == correction) & table[column].notna()]
        by_level = rows.groupby("level")[column]
        means = [mean_over_seeds(values) for _, values in by_level]
        style = STYLES[correction] | ({"linestyle": "none"} if suffix else {})
        shift = width * (position - (len(corrections) - 1) / 2)
        draw_figures(axes, list(by_level.groups), means, shift=shift, **style)
        if suffix and len(rows):
            _draw_fits(axes, rows, column, color=style["color"])
    is_change = suffix and measure != DISTANCE  # the distance is already relative to the clean reference
    axes.set_title(("change of " if is_change else "") + MEASURES[measure].title, fontsize=10)
    tidy(axes)
    if MEASURES[measure].is_share:  # with few seeds, intervals by Student's t can leave [0, 1]
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, -1.02 if suffix else -0.02), min(high, 1.02))
    if suffix or MEASURES[measure].floor == CHANCE:
        axes.axhline(0 if suffix else CHANCE, color=GREY, linewidth=1, linestyle=":")


def _draw_fits(axes: Axes, rows: pd.DataFrame, column: str, color: str) -> None:
    levels = np.linspace(rows["level"].min(), rows["level"].max(), _NUM_POINTS)
    for kind, degree in DEGREES.items():
        fit = fit_levels(rows["level"], rows[column], rows["seed"], degree)
        if fit is not None:
            look = {"linestyle": _FIT_LINES[kind], "linewidth": 1.2}
            axes.plot(levels, fit(levels), color=color, **look)
            axes.plot([], [], color=GREY, label=f"{kind} fit", **look)  # for the legend


def save_plot(plot: Plot, folder: Path) -> None:
    """Write a plot as `NAME.pdf`, `NAME.svg` and `NAME.png`; equal plots give equal bytes."""
    with mpl.rc_context({"svg.hashsalt": plot.name, "pdf.fonttype": 42}):  # TrueType, which journals ask for
        plot.canvas.savefig(folder / f"{plot.name}.pdf", metadata={"CreationDate": None})
        plot.canvas.savefig(folder / f"{plot.name}.svg", metadata={"Date": None})
    (folder / f"{plot.name}.png").write_bytes(plot.to_png())
