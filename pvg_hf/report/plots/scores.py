"""The verifiers' scores of test solutions: their distributions, and the ROC curves of each verifier on each prover."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from pvg_hf.core.roles import GAME_ROLES
from pvg_hf.evaluation.roc import RocCurves
from pvg_hf.evaluation.role_figures import scored_rows
from pvg_hf.evaluation.verifiers_by_pools import pool_acceptance
from pvg_hf.report.plots.style import CELL_STYLES, GREY, SHARES, Plot, legend_below, new_canvas, round_style, tidy
from pvg_hf.report.tables import pool_heading
from pvg_hf.run.read import RunData

NUM_BINS = 24
HEADROOM = 1.35  # factor on the vertical axis, which leaves space for the legends
MAX_PANELS = 4  # of ROC curves
CAPTION = (
    "Test solutions with a final answer, by the verifier of their own round. Filled: correct; dashed outline:"
    " incorrect; each adds up to 1. The dotted vertical line is the lowest score that the verifier accepts. Each"
    " panel shows its n."
)
TERMS = {"accepted": "the score is at least that of 95 % of the helpful correct test solutions of the round."}
ROC_TERMS = {
    "true and false positive rate": (
        "shares of a prover's correct and incorrect test solutions that a verifier accepts, for every "
        "threshold; both roles together."
    )
}


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
        acceptance = pool_acceptance(table)
        for axes, role in zip(grid[:, column], GAME_ROLES):
            _draw_role(axes, table[table["role"] == role.value], role, edges)
            if acceptance is not None:
                axes.axvline(acceptance.threshold, color=GREY, linewidth=1.2, linestyle=(0, (2, 2)))
        grid[0, column].set_title(f"round {index}", fontsize=11)
        grid[1, column].set_xlabel("score (verifier's units)")
    grid[0, 0].set_ylim(top=HEADROOM * grid[0, 0].get_ylim()[1])
    for axes, role in zip(grid[:, 0], GAME_ROLES):
        axes.set_ylabel(f"{role}\nshare of solutions")
    return Plot("scores", "What the verifier's scores look like", CAPTION, canvas, TERMS)


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


def plot_roc(run: RunData) -> Plot | None:
    """One panel per pool with a curve per verifier; of many pools the base prover's, the first and the latest."""
    found = [data.pool_scores for data in run.evaluated if data.pool_scores is not None]
    if not found:
        return None
    scores = scored_rows(pd.concat(found, ignore_index=True))
    if scores.empty:  # no prover gave an answer
        return None
    pools = sorted(scores["round_index"].unique())
    if len(pools) > MAX_PANELS:
        pools = [*pools[:2], *pools[2 - MAX_PANELS :]]
    verifiers = sorted(scores["verifier"].unique())
    canvas = new_canvas(0.6 + 2.6 * len(pools), 3.8)
    panels = canvas.subplots(1, len(pools), sharex=True, sharey=True, squeeze=False)[0]
    for axes, pool in zip(panels, pools):
        rows = scores[scores["round_index"] == pool]
        for position, verifier in enumerate(verifiers):
            style = {**round_style(position, len(verifiers)), "marker": ""}
            _draw_curve(axes, rows[rows["verifier"] == verifier], f"verifier {verifier}", style)
        _finish_roc(axes, pool)
    panels[0].set_ylabel("true positive rate")
    legend_below(canvas, num_columns=min(len(verifiers), 2 * len(pools)))
    return Plot("roc", "ROC curves of every verifier", _roc_caption(scores, pools), canvas, ROC_TERMS)


def _draw_curve(axes: Axes, rows: pd.DataFrame, label: str, style: dict) -> None:
    correct = rows["correct"].to_numpy(bool)
    if correct.all() or not correct.any():
        return
    fprs, tprs = RocCurves(rows["score"].to_numpy(float), correct)(np.ones((1, len(rows))))
    axes.plot(fprs[0], tprs[0], linewidth=1.8, label=label, **style)


def _finish_roc(axes: Axes, pool: int) -> None:
    tidy(axes)
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=":")
    axes.set_title(pool_heading(pool), fontsize=11)
    axes.set(xlabel="false positive rate", xlim=SHARES, ylim=SHARES)


def _roc_caption(scores: pd.DataFrame, pools: list[int]) -> str:
    counts = []
    for pool in pools:
        rows = scores[scores["round_index"] == pool].drop_duplicates(["role", "problem_id", "sample_index"])
        correct = int(rows["correct"].astype(bool).sum())
        counts.append(f"{pool_heading(pool)} {correct:,} correct and {len(rows) - correct:,} incorrect")
    return f"Test solutions that did not fail: {'; '.join(counts)}. The dotted diagonal is chance."
