"""The report's tables about programs and the sandbox that ran them."""

from collections.abc import Sequence

import pandas as pd

from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.figure import Figure
from pvg_hf.core.roles import GAME_ROLES
from pvg_hf.evaluation.catalogue import heading_of
from pvg_hf.experimental.programs.code import Proposal
from pvg_hf.experimental.programs.program_figures import QUARTILES, TEST_OUTCOMES
from pvg_hf.report.tables import MISSING, Table, TableCell, figure_cell
from pvg_hf.run.read import RunData, name_phase

MAX_PROBLEMS = 40
"""Problems of the table by problem; all are in `problems.parquet`."""

_CERTIFICATES = (
    ("certified, of the incorrect", "certificate_rate/{}"),
    ("hidden mistakes, of all", "hidden_mistake/{}"),
    ("pass only once", "unrepeatable/{}"),
    ("visible tests passed", "visible_pass_rate/{}"),
    ("hidden tests passed", "hidden_pass_rate/{}"),
)
_PROPOSALS = (
    *((proposal.value, f"proposed_input/{{}}/{proposal}") for proposal in Proposal),
    ("of the certified wrong", "certified_by_prover/{}"),
)
_OUTCOMES = tuple((outcome.replace("_", " "), f"tests/{{}}/{outcome}") for outcome in TEST_OUTCOMES)
_PROBLEMS = (
    ("certified wrong, sneaky", "certified_wrong_sneaky"),
    ("visible tests passed, sneaky", "visible_pass_rate_sneaky"),
    ("hidden tests passed, sneaky", "hidden_pass_rate_sneaky"),
    ("similarity, sneaky", "similarity_sneaky"),
    ("best score, sneaky incorrect", "best_score_sneaky_incorrect"),
    ("best score, helpful correct", "best_score_helpful_correct"),
    (heading_of("accuracy/helpful"), "accuracy_helpful"),
)


def program_tables(run: RunData) -> dict[str, Table]:
    """
    Tables of certificates, tests and similarity by heading, with a row per role and round; empty for tasks without
    programs.
    """
    tables = {
        "Certificates and tests": _by_role(run, _CERTIFICATES),
        "Outcomes of the tests": _by_role(run, _OUTCOMES),
        "Inputs that provers proposed": _by_role(run, _PROPOSALS),
        "Similarity to the nearest honest program": _similarity_table(run),
    }
    return {heading: table for heading, table in tables.items() if table.rows}


def program_problems_table(run: RunData) -> Table | None:
    """
    Figures of single problems in the last evaluated round, those with the highest share of certified mistakes first.

    `None` for tasks without programs.
    """
    problems = run.evaluated[-1].problems if run.evaluated else None
    if problems is None or "certified_wrong_sneaky" not in problems:
        return None
    by = ["certified_wrong_sneaky", "best_score_sneaky_incorrect", "problem_id"]
    ranked = problems.sort_values(by, ascending=[False, False, True]).head(MAX_PROBLEMS)
    rows = [
        (str(row["problem_id"]), [_number(row[column]) for _, column in _PROBLEMS]) for _, row in ranked.iterrows()
    ]
    return Table(["", *(heading for heading, _ in _PROBLEMS)], rows)


def sandbox_table(run: RunData) -> Table:
    """Tabulate the use of the sandbox, one row per finished phase that ran a program."""
    rows = []
    for event in run.finished_phases:
        use = event.get("task_use")
        if not use:
            continue
        numbers = (
            *(use.get(name, 0) for name in ("programs", "cache_hits", "lost_workers")),
            *(use.get(f"cases/{name}", 0) for name in TEST_OUTCOMES),
        )
        where = name_phase(BASE_ROUND if event["round"] is None else event["round"], event["phase"])
        rows.append(
            (where, [TableCell(f"{use['seconds']:,.1f}"), *(TableCell(f"{number:,.0f}") for number in numbers)])
        )
    names = [outcome.replace("_", " ") for outcome in TEST_OUTCOMES]
    return Table(["", "seconds", "programs run", "from the cache", "workers lost", *names], rows)


def _by_role(run: RunData, columns: Sequence[tuple[str, str]]) -> Table:
    rows = []
    for role in GAME_ROLES:
        keys = [key.format(role) for _, key in columns]
        for heading, figures in _sources(run):
            if any(key in figures for key in keys):
                rows.append((f"{role}, {heading}", [_cell(figures, key) for key in keys]))
    return Table(["", *(heading for heading, _ in columns)], rows)


def _similarity_table(run: RunData) -> Table:
    """One row per role and kind of program, and per round."""
    rows = []
    for role, kind in (("helpful", "correct"), ("sneaky", "correct"), ("sneaky", "wrong")):
        keys = [f"similarity/{role}_{kind}", *(f"similarity_quartile/{role}_{kind}/{share:g}" for share in QUARTILES)]
        for heading, figures in _sources(run):
            if keys[0] in figures:
                what = "certified wrong" if kind == "wrong" else kind
                rows.append((f"{role} {what}, {heading}", [_cell(figures, key) for key in keys]))
    return Table(["", "mean", "lower quartile", "median", "upper quartile"], rows)


def _sources(run: RunData) -> list[tuple[str, dict[str, Figure]]]:
    """Figures of the base prover and of each evaluated round."""
    rounds = [(f"round {data.round_index}", data.figures) for data in run.evaluated]
    if not rounds:
        return []
    first = rounds[0][1]
    base = {key.removeprefix("base_"): figure for key, figure in first.items() if key.startswith("base_")}
    return [("base", base), *rounds]


def _cell(figures: dict[str, Figure], key: str) -> TableCell:
    return figure_cell(figures[key], 3) if key in figures else TableCell(MISSING)


def _number(value: float | None) -> TableCell:
    return TableCell(MISSING if pd.isna(value) else f"{float(value):.2f}")
