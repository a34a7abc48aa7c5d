"""One recipe played from several seeds, as a table."""

from collections.abc import Sequence
from pathlib import Path

from pvg_hf.evaluation.intervals import Figure
from pvg_hf.evaluation.report.run_data import load_run

# Heading, figure, and the factor that makes it the thing that is named.
COLUMNS = (
    ("verifier's pair accuracy, held-out part of its mixture", "verifier_mixture_pair_accuracy", 1),
    ("kept helpful checkpoint: accuracy", "accuracy/best_helpful", 1),
    ("against the base, helpful role", "accuracy_change/best_helpful", 1),
    ("sneaky: incorrect, against the base, sneaky role", "accuracy_change/sneaky", -1),
    ("score of sneaky incorrect, against the base's", "score_change/sneaky_incorrect", 1),
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
    rows = [["seed", "round", *(heading for heading, _, _ in COLUMNS)], ["---"] * (2 + len(COLUMNS))]
    for run in map(load_run, run_folders):
        for data in run.evaluated:
            cells = [_cell(data.figure(key), sign) for _, key, sign in COLUMNS]
            rows.append([str(run.recipe.seed), str(data.round_index), *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(figure: Figure, sign: int) -> str:
    if figure.value is None:
        return f"none (n={figure.n})"
    if figure.low is None:
        return f"{sign * figure.value:.3f} (n={figure.n:,})"
    low, high = sorted((sign * figure.low, sign * figure.high))
    return f"{sign * figure.value:.3f} [{low:.3f}, {high:.3f}] (n={figure.n:,})"
