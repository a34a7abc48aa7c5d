"""Report tables on the evaluations that generative verifiers wrote of test proofs, and samples next to their proofs."""

import json
from dataclasses import dataclass

import pandas as pd

from pvg_hf.analyses.form import ALLOWED_SCORES
from pvg_hf.report.escaping import Line
from pvg_hf.run.read import RunData

NUM_SHOWN = 6


@dataclass(frozen=True)
class ShownEvaluation:
    """
    A written evaluation of a proof with its true score (`reference`) and the predicted one, `None` if it cannot be read.

    A line of the evaluation that names an issue has the note `true` or `hallucinated` if the task can check it.
    """

    problem: str
    role: str
    proof: str
    reference: float
    predicted: float | None
    lines: list[Line]


def sample_evaluations(run: RunData) -> list[ShownEvaluation]:
    """Select up to `NUM_SHOWN` evaluations of the last round, from every true score in turn, hallucinated issues first."""
    tables = [data.evaluations for data in run.evaluated if data.evaluations is not None and len(data.evaluations)]
    if not tables:
        return []
    rows = tables[-1]
    order = sorted(range(len(rows)), key=lambda place: not has_hallucination(rows["issues"].iloc[place]))
    by_score = [[place for place in order if rows["reference"].iloc[place] == score] for score in ALLOWED_SCORES]
    # Round-robin over the true scores: the first evaluation of each score, then the second of each, and so on.
    chosen = [place for turn in range(NUM_SHOWN) for places in by_score for place in places[turn : turn + 1]]
    return [show_evaluation(rows.iloc[place]) for place in chosen[:NUM_SHOWN]]


def has_hallucination(issues: str) -> bool:
    """Whether an evaluation names an issue that the proof does not have, according to its column `issues`."""
    return any(is_real is False for _, is_real in json.loads(issues))


def show_evaluation(row: pd.Series) -> ShownEvaluation:
    """Convert a row of `evaluations.parquet`, with a mark on each issue that it names."""
    known = {_tidy(issue): is_real for issue, is_real in json.loads(row["issues"])}
    marks = {True: "true", False: "hallucinated", None: None}
    return ShownEvaluation(
        problem=row["problem"],
        role=row["role"],
        proof=row["solution"],
        reference=row["reference"],
        predicted=None if pd.isna(row["predicted"]) else row["predicted"],
        lines=[_show_line(line, marks[known.get(_tidy(line))]) for line in row["evaluation"].split("\n")],
    )


def _show_line(text: str, mark: str | None) -> Line:
    return Line(text, mark, is_soft=mark == "true")


def _tidy(text: str) -> str:
    return " ".join(text.split())
