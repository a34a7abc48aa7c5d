"""Summarises runs of one recipe with several seeds."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import sem, t

from pvg_hf.core.figure import ALPHA, EMPTY, Figure
from pvg_hf.core.markdown import markdown_table
from pvg_hf.experimental.attacks.attack_curves import attack_judgements, read_attacks
from pvg_hf.experimental.attacks.exploit import ATTACK_OUTCOMES, exploit_figures, log_rank_p, read_exploits
from pvg_hf.report.pool_tables import pool_cells, pool_heading
from pvg_hf.run.read import RunData, load_run

# Column headings and keys of the figures.
SEED_COLUMNS = (
    ("verifier's pair accuracy, held-out part of its mixture", "verifier_mixture_pair_accuracy"),
    ("kept helpful checkpoint: accuracy", "accuracy/best_helpful"),
    ("against the base, helpful role", "accuracy_change/best_helpful"),
    ("sneaky: valid mistakes, against the base, sneaky role", "valid_sneaky_change"),
    ("sneaky: failed", "failed/sneaky"),
    ("score of sneaky incorrect, against the base's", "score_change/sneaky_incorrect"),
)


def seeds_table(run_folders: Sequence[Path]) -> str:
    """
    Return a Markdown table with a row per seed and evaluated round: value, 95 % interval and n.

    Args:
        run_folders (`Sequence[Path]`):
            Runs of one recipe.

    Raises:
        ValueError: if a folder does not contain a run.
    """
    rows = [["seed", "round", *(heading for heading, _ in SEED_COLUMNS)]]
    for run in map(load_run, run_folders):
        for data in run.evaluated:
            cells = [show_figure(data.figure(key)) for _, key in SEED_COLUMNS]
            rows.append([str(run.recipe.seed), str(data.round_index), *cells])
    return markdown_table(rows)


def seeds_pools_table(run_folders: Sequence[Path]) -> str:
    """
    Return a Markdown table of verifiers x pools, with a row per seed and verifier and a column per prover.

    A cell is the share of the prover's sneaky mistakes that the verifier accepts, as in
    [`~pvg_hf.evaluation.verifiers_by_pools.pool_figures`].

    Args:
        run_folders (`Sequence[Path]`):
            Runs of one recipe.

    Raises:
        ValueError: if a folder does not contain a run.
    """
    runs = [load_run(folder) for folder in run_folders]
    found = [pool_cells(run, "accepted") for run in runs]
    pools = sorted({pool for cells in found for _, pool in cells})
    rows = [["seed", "verifier", *map(pool_heading, pools)]]
    for run, cells in zip(runs, found):
        for verifier in sorted({verifier for verifier, _ in cells}):
            shares = [show_figure(cells.get((verifier, pool), EMPTY)) for pool in pools]
            rows.append([str(run.recipe.seed), str(verifier), *shares])
    return markdown_table(rows)


def seeds_attacks_table(runs: Sequence[RunData]) -> str | None:
    """
    Return a Markdown table of the fresh attackers of all runs together, with a row per reward and round.

    The columns are the number that found an exploit, the Kaplan-Meier median of its step, and the p-value of the log-rank test
    against the attackers of the first attacked round. Several attackers of one game count as independent.

    Args:
        runs (`Sequence[RunData]`):
            Runs of one recipe.

    Returns:
        `str`, *optional*: the table, or `None` if no verifier was attacked.
    """
    found = attack_judgements(runs)
    if not found:
        return None
    outcomes = read_attacks(found, ATTACK_OUTCOMES)
    rows = [["attacker", "verifier", "found an exploit", "steps of each", "median step", "p against the first"]]
    for kind, of_kind in outcomes.groupby("attack", sort=False):
        first = None
        for index, of_round in of_kind.groupby("round"):
            exploits = read_exploits(of_round)
            figures = exploit_figures(exploits, int(of_round["max_steps"].max()))
            p = EMPTY if first is None else log_rank_p(exploits, first)
            first = first or exploits
            steps = sorted(exploits, key=lambda exploit: (exploit.time, not exploit.is_found))
            rows.append(
                [
                    kind,
                    str(index),
                    f"{sum(exploit.is_found for exploit in exploits)} of {len(exploits)}",
                    ", ".join(str(exploit.time) if exploit.is_found else f"> {exploit.time}" for exploit in steps),
                    show_figure(figures["median_steps"], with_n=False),
                    "" if p.value is None else f"{p.value:.3f}",
                ]
            )
    return markdown_table(rows)


def mean_over_seeds(values: ArrayLike) -> Figure:
    """
    Return the mean over seeds with its 95 % interval by Student's t.

    Args:
        values (`ArrayLike` of shape `(num_seeds,)`):
            One value per seed; NaN if a seed has none.

    Returns:
        `Figure`: `n` is the number of values. There is no interval for a single value, or for equal ones, which do not show that
        there is no spread.
    """
    known = np.asarray(values, dtype=float)
    known = known[~np.isnan(known)]
    if not len(known):
        return EMPTY
    if np.ptp(known) == 0:
        return Figure(float(known[0]), None, None, len(known))
    low, high = t.interval(1 - ALPHA, len(known) - 1, loc=known.mean(), scale=sem(known))
    return Figure(float(known.mean()), float(low), float(high), len(known))


def show_figure(figure: Figure, *, with_n: bool = True) -> str:
    """Format a figure as a table cell: value, 95 % interval and, with `with_n`, n."""
    size = f" (n={figure.n:,})" if with_n else ""
    if figure.value is None:
        return f"none{size}"
    interval = "" if figure.low is None else f" [{figure.low:.3f}, {figure.high:.3f}]"
    return f"{figure.value:.3f}{interval}{size}"
