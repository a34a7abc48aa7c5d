"""ROC curves: each verifier on the solutions of each prover."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from pvg_hf.evaluation.roc import RocCurves
from pvg_hf.evaluation.role_figures import scored_rows
from pvg_hf.report.plots.style import GREY, Plot, legend_below, new_canvas, round_style, tidy
from pvg_hf.report.tables import pool_heading
from pvg_hf.run.read import RunData

MAX_PANELS = 4
TERMS = {
    "true and false positive rate": "shares of a prover's correct and incorrect test solutions that a verifier accepts, for every "
    "threshold; both roles together."
}


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
            _draw(axes, rows[rows["verifier"] == verifier], f"verifier {verifier}", style)
        _finish(axes, pool)
    panels[0].set_ylabel("true positive rate")
    legend_below(canvas, num_columns=min(len(verifiers), 2 * len(pools)))
    return Plot("roc", "ROC curves of every verifier", _caption(scores, pools), canvas, TERMS)


def _draw(axes: Axes, rows: pd.DataFrame, label: str, style: dict) -> None:
    correct = rows["correct"].to_numpy(bool)
    if correct.all() or not correct.any():
        return
    fprs, tprs = RocCurves(rows["score"].to_numpy(float), correct)(np.ones((1, len(rows))))
    axes.plot(fprs[0], tprs[0], linewidth=1.8, label=label, **style)


def _finish(axes: Axes, pool: int) -> None:
    tidy(axes)
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=":")
    axes.set_title(pool_heading(pool), fontsize=11)
    axes.set_xlabel("false positive rate")
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)


def _caption(scores: pd.DataFrame, pools: list[int]) -> str:
    counts = []
    for pool in pools:
        rows = scores[scores["round_index"] == pool].drop_duplicates(["role", "problem_id", "sample_index"])
        correct = int(rows["correct"].astype(bool).sum())
        counts.append(f"{pool_heading(pool)} {correct:,} correct and {len(rows) - correct:,} incorrect")
    return f"Test solutions that did not fail: {'; '.join(counts)}. The dotted diagonal is chance."
