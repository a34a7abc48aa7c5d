"""What the game is good for, as a table of the report."""

from pvg_hf.evaluation.answering import THRESHOLDS
from pvg_hf.evaluation.report.run_data import RunData
from pvg_hf.evaluation.report.tables import Table, figure_cell

_COLUMNS = (
    ("the first solution", "answers/first"),
    ("the most frequent answer", "answers/majority"),
    ("the vote weighted by score", "answers/weighted"),
    ("the verifier's choice", "answers/best"),
    ("choice less first", "answers/gain"),
)


def answers_table(run: RunData) -> Table:
    """One row per round that was evaluated with a calibration."""
    columns = list(_COLUMNS)
    for threshold in THRESHOLDS:
        columns.append((f"answered at {threshold}", f"answers/coverage_{threshold}"))
        columns.append((f"correct of these, at {threshold}", f"answers/accuracy_{threshold}"))
    rows = [
        (f"round {data.round_index}", [figure_cell(data.figure(key), 3) for _, key in columns])
        for data in run.evaluated
        if "answers/best" in data.figures
    ]
    return Table(["", *(heading for heading, _ in columns)], rows)
