"""Distributions of the similarity of test programs to honest ones, per role and round."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.experimental.programs.program_figures import is_certified_wrong
from pvg_hf.report.plots.style import CELL_STYLES, Plot, new_canvas, tidy
from pvg_hf.run.read import RunData

BINS = np.linspace(0, 1, 21)
_COLUMNS = {"similarity", "failing_input"}
TERMS = {
    "similarity": "1 for the same program up to names, comments and layout as an honest one, 0 for nothing in common."
}


def plot_similarities(run: RunData) -> Plot | None:
    """
    Histograms of similarity, one row per role and one column per round; shares are within a role and kind of program.

    `None` for tasks without programs.
    """
    tables = {
        data.round_index: data.solutions
        for data in run.rounds
        if data.solutions is not None and len(data.solutions) and set(data.solutions.columns) >= _COLUMNS
    }
    if not tables:
        return None
    canvas = new_canvas(max(4.8, 1.2 + 2.9 * len(tables)), 4.8)
    grid = canvas.subplots(2, len(tables), sharex=True, sharey=True, squeeze=False)
    for column, (index, table) in enumerate(tables.items()):
        for axes, role in zip(grid[:, column], GAME_ROLES):
            _draw_kinds(axes, table[table["role"] == role.value], role)
        grid[0, column].set_title(f"round {index}", fontsize=11)
        grid[1, column].set_xlabel("similarity")
    for axes, role in zip(grid[:, 0], GAME_ROLES):
        axes.set_ylabel(f"{role}\nshare of programs")
    return Plot("similarities", "How similar programs are to honest ones", _CAPTION, canvas, TERMS)


_CAPTION = (
    "Programs for test problems, by their similarity to the nearest honest program. Filled: correct; dashed outline:"
    " certified to be wrong; each adds up to 1. Each panel shows its n."
)


def _draw_kinds(axes: Axes, rows: pd.DataFrame, role: Role) -> None:
    for kind, counts in (("certified wrong", is_certified_wrong(rows)), ("correct", rows["correct"].astype(bool))):
        similarities = rows.loc[counts, "similarity"].dropna().to_numpy(float)
        shares = np.histogram(similarities, BINS)[0] / max(1, len(similarities))
        label = f"{kind}, n={len(similarities):,}"
        if kind == "correct":
            color = CELL_STYLES[f"{role}_correct"]["color"]
            axes.stairs(shares, BINS, fill=True, color=color, alpha=0.35, label=label)
        else:
            axes.stairs(shares, BINS, color="black", linestyle="--", linewidth=1.4, label=label)
    tidy(axes)
    axes.legend(framealpha=0.9, edgecolor="none", fontsize=8, loc="upper left")
