"""Tables of a grader's audit: how often it accepts, rejects and gives no verdict, by family of transforms."""

from collections.abc import Iterable

import pandas as pd

from experiments.audit import AuditTrial, AuditVerdict
from pvg_hf.core.figure import Figure
from pvg_hf.core.markdown import markdown_table
from pvg_hf.evaluation.intervals import rate_by_problem

VERDICTS = tuple(verdict.value for verdict in AuditVerdict)

_SHOWN = 32  # characters of an example, from its end


def tabulate_trials(trials: Iterable[AuditTrial]) -> pd.DataFrame:
    """
    Return a row per trial: `problem_id`, `family`, `transform`, `due`, `verdict`, `is_violation` and `text`.

    `due` is `accepted`, `rejected`, or `not accepted` where no verdict is as good as a rejection.
    """
    rows = [
        {
            "problem_id": trial.problem_id,
            "family": trial.transform.family,
            "transform": trial.transform.name,
            "due": trial.due.value if trial.transform.keeps else "not accepted",
            "verdict": trial.verdict.value,
            "is_violation": trial.is_violation,
            "text": trial.text,
        }
        for trial in trials
    ]
    return pd.DataFrame(rows)


def audit_figures(table: pd.DataFrame, by: list[str]) -> dict[tuple[str, ...], dict[str, Figure]]:
    """
    Return the share of each verdict.

    Args:
        table (`pd.DataFrame`):
            Return value of [`tabulate_trials`].
        by (`list[str]`):
            Columns that define the groups, in their order of appearance.

    Returns:
        `dict`: by group, a figure per verdict, over trials. Intervals treat the trials of a problem as dependent.
    """
    return {
        group: {verdict: rate_by_problem(rows["verdict"] == verdict, rows["problem_id"]) for verdict in VERDICTS}
        for group, rows in table.groupby(by, sort=False)
    }


def family_table(table: pd.DataFrame) -> str:
    """Format a Markdown table with a row per family and certified verdict."""
    rows = [["family", "must be", "transforms", "problems", "n", *VERDICTS]]
    for (family, due), figures in audit_figures(table, ["family", "due"]).items():
        trials = table[(table["family"] == family) & (table["due"] == due)]
        counts = (trials["transform"].nunique(), trials["problem_id"].nunique(), len(trials))
        rows.append([family, due, *map(str, counts), *(_show(figures[verdict]) for verdict in VERDICTS)])
    return markdown_table(rows)


def finding_table(table: pd.DataFrame) -> str:
    """
    Format a Markdown table of the transforms whose verdict is not always the certified one, each with an example.

    Returns:
        `str`: empty if there is none.
    """
    is_found = (table["verdict"] != table["due"]) & ((table["due"] != "not accepted") | table["is_violation"])
    rows = [["family", "transform", "must be", *VERDICTS, "n", "example"]]
    for (family, transform, due), found in table[is_found].groupby(["family", "transform", "due"], sort=False):
        trials = table[(table[["family", "transform", "due"]] == (family, transform, due)).all(axis=1)]
        counts = trials["verdict"].value_counts()
        example = repr(found["text"].iloc[0][-_SHOWN:]).replace("|", "\\|")
        counted = [str(counts.get(verdict, 0)) for verdict in VERDICTS]
        rows.append([family, transform, due, *counted, str(len(trials)), f"`` {example} ``"])
    return markdown_table(rows) if len(rows) > 1 else ""


def _show(figure: Figure) -> str:
    """Format a share without n; a verdict that never occurs has only its upper bound."""
    if not figure.value:
        return f"0 (at most {figure.high:.4f})"
    return f"{figure.value:.4f} ({figure.low:.4f} - {figure.high:.4f})"
