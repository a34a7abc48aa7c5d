"""One recipe played from several seeds, as a table."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from statsmodels.stats.weightstats import DescrStatsW

from pvg_hf.core.figure import ALPHA, EMPTY, Figure
from pvg_hf.run.read import load_run

# Heading and figure.
COLUMNS = (
    ("verifier's pair accuracy, held-out part of its mixture", "verifier_mixture_pair_accuracy"),
    ("kept helpful checkpoint: accuracy", "accuracy/best_helpful"),
    ("against the base, helpful role", "accuracy_change/best_helpful"),
    ("sneaky: valid mistakes, against the base, sneaky role", "valid_sneaky_change"),
    ("sneaky: failed", "failed/sneaky"),
    ("score of sneaky incorrect, against the base's", "score_change/sneaky_incorrect"),
)


def seeds_table(run_folders: Sequence[Path]) -> str:
    """
    A Markdown table with a row per seed and evaluated round: value, 95 % interval and n.

    Args:
        run_folders (`Sequence[Path]`):
            Runs of one recipe.

    Raises:
        ValueError: if a folder holds no run.
    """
    rows = [["seed", "round", *(heading for heading, _ in COLUMNS)], ["---"] * (2 + len(COLUMNS))]
    for run in map(load_run, run_folders):
        for data in run.evaluated:
            cells = [show_figure(data.figure(key)) for _, key in COLUMNS]
            rows.append([str(run.recipe.seed), str(data.round_index), *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def mean_over_seeds(values: ArrayLike) -> Figure:
    """
    Mean with its 95 % interval by Student's t: what other seeds would give.

    Args:
        values (`ArrayLike` of shape `(num_seeds,)`):
            One per seed; NaN where a seed has none.

    Returns:
        `Figure`: `n` is the number of values; without an interval for one of them.
    """
    known = np.asarray(values, dtype=float)
    known = known[~np.isnan(known)]
    if not len(known):
        return EMPTY
    if len(known) == 1:
        return Figure(float(known[0]), None, None, 1)
    low, high = DescrStatsW(known).tconfint_mean(ALPHA)
    return Figure(float(known.mean()), float(low), float(high), len(known))


def show_figure(figure: Figure, *, with_n: bool = True) -> str:
    """A figure as a cell of a table: value, 95 % interval and, unless the table says it elsewhere, n."""
    size = f" (n={figure.n:,})" if with_n else ""
    if figure.value is None:
        return f"none{size}"
    interval = "" if figure.low is None else f" [{figure.low:.3f}, {figure.high:.3f}]"
    return f"{figure.value:.3f}{interval}{size}"
