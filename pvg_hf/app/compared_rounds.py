"""Figures of a run's rounds, and their comparison with another run's."""

import pandas as pd

from pvg_hf.evaluation.catalogue import explain, heading_of
from pvg_hf.evaluation.comparison import ComparedFigure
from pvg_hf.report.tables import MISSING, Table, TableCell, figure_cell
from pvg_hf.run.layout import JUDGING
from pvg_hf.run.read import RoundData, RunData


def figures_frame(run: RunData) -> pd.DataFrame:
    """
    All figures of all rounds: `round_index`, `figure` (its name in `metrics.json`), `value`, `low`, `high`, `n`.

    Those of the evaluations that followed the rounds are named as in `metrics.jsonl`, `judging/NAME/...`.
    """
    rows = [
        {"round_index": data.round_index, "figure": name, **figure.to_dict()}
        for data in run.evaluated
        for name, figure in data.figures.items()
    ]
    rows += [
        {"round_index": judgement.round_index, "figure": f"{JUDGING}/{judgement.name}/{key}", **figure.to_dict()}
        for judgement in run.judgements
        for key, figure in judgement.figures.items()
    ]
    return pd.DataFrame(rows, columns=["round_index", "figure", "value", "low", "high", "n"])


def solutions_of(run: RunData, round_index: int) -> RoundData | None:
    """Data of a round; `None` if it is not evaluated."""
    return next((data for data in run.evaluated if data.round_index == round_index), None)


def comparison_table(compared: list[ComparedFigure], ours: str, theirs: str) -> Table:
    """Table with one row per figure: its value on both sides, and the difference."""
    rows = [
        (
            heading_of(figure.name),
            [
                figure_cell(figure.ours, 3),
                figure_cell(figure.theirs, 3),
                _difference_cell(figure),
                TableCell(f"{figure.num_shared:,}"),
            ],
        )
        for figure in compared
    ]
    return Table(
        ["", ours, theirs, "difference", "shared problems"], rows, explain(figure.name for figure in compared)
    )


def _difference_cell(figure: ComparedFigure) -> TableCell:
    cell = figure_cell(figure.difference, 3)
    return (
        TableCell(MISSING)
        if figure.difference.value is None
        else TableCell(f"{figure.difference.value:+.3f}", cell.interval)
    )
