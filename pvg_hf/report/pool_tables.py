"""Tables of verifiers x pools: each verifier on the test solutions of each round."""

import re

from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.figure import Figure
from pvg_hf.report.tables import MISSING, Table, TableCell, figure_cell
from pvg_hf.run.read import RunData

# Name of the figure, and heading of its table.
POOL_MEASURES = {
    "accepted": "Sneaky mistakes accepted",
    "accepted_change": "Sneaky mistakes accepted, against the pool's own verifier",
    "auc": "AUC",
    "pair_accuracy": "Pair accuracy",
}

_KEY = re.compile(r"pools/(\w+)/(round-\d+)/(base|round-\d+)")


def pool_cells(run: RunData, measure: str) -> dict[tuple[int, int], Figure]:
    """Figures of one measure by the rounds of verifier and pool."""
    found = [(_KEY.fullmatch(key), figure) for data in run.evaluated for key, figure in data.figures.items()]
    return {(_round(key[2]), _round(key[3])): figure for key, figure in found if key and key[1] == measure}


def pools_tables(run: RunData) -> dict[str, Table]:
    """Tables by heading: one row per verifier, one column per pool; empty ones are left out."""
    tables = {heading: _table(pool_cells(run, measure)) for measure, heading in POOL_MEASURES.items()}
    return {heading: table for heading, table in tables.items() if table.rows}


def _table(cells: dict[tuple[int, int], Figure]) -> Table:
    verifiers, pools = (sorted({key[index] for key in cells}) for index in (0, 1))
    rows = [
        (
            f"verifier {verifier}",
            [
                figure_cell(cells[verifier, pool], 3) if (verifier, pool) in cells else TableCell(MISSING)
                for pool in pools
            ],
        )
        for verifier in verifiers
    ]
    return Table(["", *map(pool_heading, pools)], rows)


def pool_heading(pool: int) -> str:
    """Return `base prover`, or `prover 0` for that of round 0."""
    return "base prover" if pool == BASE_ROUND else f"prover {pool}"


def _round(name: str) -> int:
    return BASE_ROUND if name == "base" else int(name.removeprefix("round-"))
