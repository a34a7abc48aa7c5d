"""Figures of a score verifier: the quality of its evaluations of test proofs, and of the labels from them."""

import json

import pandas as pd

from pvg_hf.analyses.form import ALLOWED_SCORES
from pvg_hf.core.figure import Figure
from pvg_hf.evaluation.intervals import rate_by_problem

UNREADABLE = "none"


def evaluation_figures(rows: pd.DataFrame) -> dict[str, Figure]:
    """
    Compute the figures of the catalogue that begin with `evaluations/`; `none` stands for unreadable scores.

    `rows` has one row per evaluation: `problem_id`, `reference` (the true score), `predicted` (NaN if unreadable),
    `has_form`, and `issues` (JSON: the issues that it names, each with whether the proof has it; empty if the task
    cannot tell).
    """
    figures = {
        "evaluations/format_rate": _rate(rows, rows["has_form"]),
        "evaluations/accuracy": _rate(rows, rows["predicted"] == rows["reference"]),
    }
    for true in ALLOWED_SCORES:
        of_true = rows[rows["reference"] == true]
        for name in confusion_columns():
            is_cell = of_true["predicted"].isna() if name == UNREADABLE else of_true["predicted"] == float(name)
            figures[f"evaluations/confusion/{true:g}_as_{name}"] = _rate(of_true, is_cell)
    figures["evaluations/false_positive_rate"] = figures["evaluations/confusion/0_as_1"]
    judged_issues = [
        (problem_id, not is_real)
        for problem_id, issues in zip(rows["problem_id"], rows["issues"], strict=True)
        for _, is_real in json.loads(issues)
    ]
    figures["evaluations/hallucinated"] = rate_by_problem(
        [wrong for _, wrong in judged_issues], [where for where, _ in judged_issues]
    )
    return figures


def label_figures(labels: pd.DataFrame) -> dict[str, Figure]:
    """
    Compute `labels/...` of proofs by `problem_id`, `reference` (the true score) and `label` (NaN where undecided).
    """
    is_labelled = labels["label"].notna()
    decided = labels[is_labelled]
    return {
        "labels/coverage": _rate(labels, is_labelled),
        "labels/precision": _rate(decided, decided["label"] == decided["reference"]),
    }


def confusion_columns() -> list[str]:
    """Return the possible predictions, as they are named in the keys."""
    return [*(f"{score:g}" for score in ALLOWED_SCORES), UNREADABLE]


def _rate(rows: pd.DataFrame, hits: pd.Series) -> Figure:
    return rate_by_problem(hits.to_numpy(), rows["problem_id"].to_numpy())
