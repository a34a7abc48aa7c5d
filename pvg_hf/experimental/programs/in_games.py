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

_COLUMN_MEANINGS = {
    "visible_tests": "The tests that a prover may know, as text.",
    "visible_pass_rate": (
        "Share of the visible tests that the program passes; null if there is no program or the sandbox failed."
    ),
    "hidden_pass_rate": "The same of the hidden tests.",
    "similarity": (
        "Similarity to the nearest honest program, in [0, 1]; 1 is the same up to names, comments and layout."
    ),
    "num_passed": "Number of tests passed.",
    "num_wrong": "Number of tests with another output than the expected one.",
    "num_crashed": "Number of tests in which the program crashed.",
    "num_timed_out": "Number of tests that reached a limit of time.",
    "num_host_failed": "Number of tests that the sandbox could not run.",
    "failing_input": "Certificate: an input on which the program is proved to be wrong; null if there is none.",
    "expected_output": "What the references give for this input.",
    "program_output": "What the program gives, or how it crashes.",
    "proposed_input": (
        "The input on which the program fails, according to its prover; null if it proposes none. It is no part of"
        " `solution`."
    ),
    "proposal": (
        "What this input proved: `certifying`, `unproved`, `invalid`, or `malformed`; null without one, or if the"
        " sandbox failed."
    ),
    "certificate_source": "Source of `failing_input`: the `tests`, or the `prover`; null if there is none.",
}

_VERDICTS = {"VERIFIED": "it passes all tests", "PROOF_INVALID": "certified to be wrong"}


class Programs:
    """Implements [`~pvg_hf.evaluation.solution_kinds.SolutionKind`]."""

    column_meanings = _COLUMN_MEANINGS

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
    # Late, since the report asks for these pages: neither imports the other first.
    from pvg_hf.report.page import make_environment

    environment = make_environment(Path(__file__).parent)
    environment.filters |= {"difference_from": lambda program, honest: show_difference(honest, program)}
    return Markup(environment.get_template(f"{template}.html.jinja").render(**values))


PROGRAMS = Programs()
