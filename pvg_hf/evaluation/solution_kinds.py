"""Kinds of solutions, such as programs: their further figures of a round, and how pages show them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pandas as pd
from markupsafe import Markup

from pvg_hf.core.figure import Figure
from pvg_hf.core.registrations import registered
from pvg_hf.core.roles import Role
from pvg_hf.run.read import RunData


@dataclass(frozen=True)
class ShownText:
    """
    A solution of a kind, as pages show it: `text` replaces its plain lines, `reference` is the problem's.
    """

    text: Markup
    verdict: str
    details: Markup
    reference: Markup


class SolutionKind(Protocol):
    """A kind of solutions, recognised by the columns of their rows, whose meanings dataset cards state."""

    column_meanings: Mapping[str, str]

    def covers(self, columns: Iterable[str]) -> bool:
        """Whether rows with these columns hold solutions of this kind."""

    def figures(self, rows: pd.DataFrame, role: Role, *, seed: int, num_resamples: int) -> dict[str, Figure]:
        """Compute figures of one role's solutions; keys as in [`~pvg_hf.evaluation.summary.evaluate_round`]."""

    def problem_columns(self, rows: pd.DataFrame, role: Role) -> dict[str, pd.Series]:
        """Return a role's further columns of the table of problems, indexed by problem."""

    def show(self, row: Mapping[str, Any], honest: Iterable[str]) -> ShownText | None:
        """
        Prepare a solution for a page; `None` if it is shown as plain text.

        `row` is a row of the pool with the problem's `reference`; `honest` are the answers of correct solutions to the
        same problem by the helpful role.
        """

    def report_section(self, run: RunData) -> Markup:
        """Render the kind's part of the report; empty for a run without such solutions."""


def find_kinds(columns: Iterable[str]) -> list[SolutionKind]:
    """Return the registered kinds that cover rows with these columns."""
    names = set(columns)
    return [kind for kind in registered("solution kind") if kind.covers(names)]


def show_text_of(row: Mapping[str, Any], honest: Iterable[str]) -> ShownText | None:
    """Prepare a solution for a page, if a registered kind covers it (see [`SolutionKind.show`])."""
    shown = (kind.show(row, honest) for kind in find_kinds(row.keys()))
    return next((text for text in shown if text is not None), None)
