"""Distributions of the verifier's scores on test solutions, per role and correctness."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from pvg_hf.core.roles import GAME_ROLES
from pvg_hf.evaluation.role_figures import scored_rows
from pvg_hf.report.plots.style import CELL_STYLES, GREY, Plot, new_canvas, tidy
from pvg_hf.run.read import RunData

NUM_BINS = 24
HEADROOM = 1.35  # factor on the vertical axis, which leaves space for the legends
TERMS = {"threshold": "solutions with a higher score count as accepted."}


def plot_scores(run: RunData) -> Plot | None:
    """Histograms of scores, one row per role and one column per round; shares are within a role and correctness."""
    tables = {data.round_index: scored_rows(data.solutions) for data in run.rounds if data.solutions is not None}
    tables = {index: table for index, table in tables.items() if len(table)}
    if not tables:
        return None
    edges = _bin_edges(pd.concat(tables.values())["score"].to_numpy(float))
    canvas = new_canvas(max(4.8, 1.2 + 2.9 * len(tables)), 4.8)
    grid = canvas.subplots(2, len(tables), sharex=True, sharey=True, squeeze=False)
    for column, (index, table) in enumerate(tables.items()):
        threshold = next(data for data in run.rounds if data.round_index == index).figure("threshold").value
        for axes, role in zip(grid[:, column], GAME_ROLES):
            _draw_role(axes, table[table["role"] == role.value], role, edges)
            if threshold is not None:
                axes.axvline(threshold, color=GREY, linewidth=1.2, linestyle=(0, (2, 2)))
        grid[0, column].set_title(f"round {index}", fontsize=11)
        grid[1, column].set_xlabel("score (verifier's units)")
    grid[0, 0].set_ylim(top=HEADROOM * grid[0, 0].get_ylim()[1])
    for axes, role in zip(grid[:, 0], GAME_ROLES):
        axes.set_ylabel(f"{role}\nshare of solutions")
    return Plot("scores", "What the verifier's scores look like", _caption(), canvas, TERMS)


def _draw_role(axes: Axes, rows: pd.DataFrame, role: str, edges: np.ndarray) -> None:
    for kind in ("incorrect", "correct"):
        scores = rows.loc[rows["correct"].astype(bool) == (kind == "correct"), "score"].to_numpy(float)
        style = CELL_STYLES[f"{role}_{kind}"]
        shares = np.histogram(scores, edges)[0] / max(1, len(scores))
        label = f"{kind}, n={len(scores):,}"
        if kind == "correct":
            axes.stairs(shares, edges, fill=True, color=style["color"], alpha=0.35, label=label)
        else:
            axes.stairs(shares, edges, color="black", linestyle="--", linewidth=1.4, label=label)
    tidy(axes)
    axes.legend(framealpha=0.9, edgecolor="none", fontsize=8, loc="upper left")  # hides the threshold behind it


def _bin_edges(scores: np.ndarray) -> np.ndarray:
    low, high = scores.min(), scores.max()
    margin = 0.5 if low == high else 0.0  # equal scores would give bins of width 0
    return np.linspace(low - margin, high + margin, NUM_BINS + 1)


def _caption() -> str:
    return (
        "Test solutions with a final answer, by the verifier of their own round. Filled: correct; dashed outline: incorrect; "
        "each adds up to 1. The dotted vertical line is the acceptance threshold. Each panel shows its n."
    )
