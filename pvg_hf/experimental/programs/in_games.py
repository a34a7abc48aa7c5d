"""Programs as a kind of solution: what they add to a round's figures, the report and the app."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from pvg_hf.core.figure import Figure
from pvg_hf.core.roles import Role
from pvg_hf.evaluation.solution_kinds import ShownText
from pvg_hf.experimental.programs.code import PROGRAM_COLUMNS
from pvg_hf.experimental.programs.program_figures import program_figures, program_problem_columns
from pvg_hf.experimental.programs.program_tables import program_problems_table, program_tables, sandbox_table
from pvg_hf.experimental.programs.shown_programs import prepare_program, show_difference
from pvg_hf.report.escaping import show_preformatted
from pvg_hf.run.read import RunData

_VERDICTS = {"VERIFIED": "it passes all tests", "PROOF_INVALID": "certified to be wrong"}


class Programs:
    """Implements [`~pvg_hf.evaluation.solution_kinds.SolutionKind`]."""

    def covers(self, columns: Iterable[str]) -> bool:
        return set(PROGRAM_COLUMNS) <= set(columns)

    def figures(self, rows: pd.DataFrame, role: Role, *, seed: int, num_resamples: int) -> dict[str, Figure]:
        return program_figures(rows, role, seed=seed, num_resamples=num_resamples)

    def problem_columns(self, rows: pd.DataFrame, role: Role) -> dict[str, pd.Series]:
        return program_problem_columns(rows, role)

    def show(self, row: Mapping[str, Any], honest: Iterable[str]) -> ShownText | None:
        shown = prepare_program(row, [row["reference"], *honest])
        if shown is None:
            return None
        return ShownText(
            text=_render("code", code=shown, whole=row["solution"].strip()),
            reveals_nothing=shown.is_whole,
            verdict=_VERDICTS.get(row["outcome"], row["outcome"].lower()),
            details=_render("proof", code=shown),
            reference=show_preformatted(row["reference"]),
        )

    def report_section(self, run: RunData) -> Markup:
        tables = {
            "programs": program_tables(run),
            "program_problems": program_problems_table(run),
            "sandbox": sandbox_table(run),
        }
        return _render("section", run=run, **tables)


def _render(template: str, **values: Any) -> Markup:
    from pvg_hf.report.page import (
        make_environment,  # the report asks for these pages, so that neither imports the other first
    )

    environment = make_environment(Path(__file__).parent)
    environment.filters |= {"difference_from": lambda program, honest: show_difference(honest, program)}
    return Markup(environment.get_template(f"{template}.html.jinja").render(**values))


PROGRAMS = Programs()
