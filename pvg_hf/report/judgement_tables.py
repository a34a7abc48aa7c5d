"""Tables of the evaluations that followed the rounds."""

from dataclasses import dataclass

from pvg_hf.report.tables import Table, TableCell, figure_cell
from pvg_hf.run.judgements import Judgement
from pvg_hf.run.read import RunData


@dataclass(frozen=True)
class JudgementTable:
    """
    The results of one evaluation.

    Args:
        name (`str`), title (`str`), terms (`dict[str, str]`):
            Name and heading of the evaluation, and explanations of its figures.
        table ([`~pvg_hf.report.tables.Table`]):
            A row per figure and a column per round.
    """

    name: str
    title: str
    terms: dict[str, str]
    table: Table


def judgement_tables(run: RunData) -> list[JudgementTable]:
    """Return a table of each evaluation that has a result, in alphabetical order of their names."""
    by_name: dict[str, list[Judgement]] = {}
    for judgement in run.judgements:
        by_name.setdefault(judgement.name, []).append(judgement)
    return [_table_of(found) for _, found in sorted(by_name.items())]


def _table_of(found: list[Judgement]) -> JudgementTable:
    last = found[-1]  # the newest explanations
    keys = dict.fromkeys(key for judgement in found for key in judgement.figures)
    rows: list[tuple[str, list[TableCell]]] = [
        (key.replace("_", " "), [figure_cell(judgement.figure(key), 3) for judgement in found]) for key in keys
    ]
    headers = ["", *(f"round {judgement.round_index}" for judgement in found)]
    return JudgementTable(last.name, last.title, last.terms, Table(headers, rows))
