"""
Flaws and forms of solutions, for tasks that report them (`first_flaw_kind`, `num_steps`, `num_flaws`, `implicit_share`).
"""

import numpy as np
import pandas as pd

from pvg_hf.core.figure import Figure
from pvg_hf.core.roles import Role
from pvg_hf.evaluation.intervals import rate_by_problem, share_by_problem
from pvg_hf.evaluation.role_figures import has_failed
from pvg_hf.evaluation.verifiers_by_pools import accepted_rows

FLAW_COLUMNS = ("first_flaw_kind", "num_steps", "num_flaws")

FORMS = ("explicit", "partly", "implicit")  # how much of its steps a solution leaves to the reader


def has_flaws(rows: pd.DataFrame) -> bool:
    """Whether the task reports the flaws of its solutions."""
    return set(FLAW_COLUMNS) <= set(rows.columns)


def flaw_table(rows: pd.DataFrame) -> pd.DataFrame:
    """
    Tabulate the first flaws by role.

    Args:
        rows (`pd.DataFrame`):
            Solutions with `problem_id`, `role` and `first_flaw_kind` (null for a solution without a flaw).

    Returns:
        `pd.DataFrame`: `role`, `kind`, `count`, and `share` with `low` and `high` among the role's `n` flawed
        solutions; one row for every role and every kind that occurs in `rows`, most frequent kinds first.
    """
    flawed = rows[rows["first_flaw_kind"].notna()]
    table = []
    for kind in flawed["first_flaw_kind"].value_counts().index:
        for role, group in flawed.groupby("role"):
            has_kind = group["first_flaw_kind"] == kind
            share = rate_by_problem(has_kind, group["problem_id"])
            table.append([role, kind, int(has_kind.sum()), share.value, share.low, share.high, share.n])
    return pd.DataFrame(table, columns=["role", "kind", "count", "share", "low", "high", "n"])


def flaw_figures(rows: pd.DataFrame, role: Role) -> dict[str, Figure]:
    """
    Compute the step validity of one role's solutions, and how much they leave implicit.

    Args:
        rows (`pd.DataFrame`):
            Solutions with `FLAW_COLUMNS` and `outcome`, all of this role, with `implicit_share` if the task has it.
        role ([`~pvg_hf.core.roles.Role`]):
            The role, which ends the keys.

    Returns:
        `dict[str, Figure]`: `step_validity/<role>` (mean share of a solution's steps without a flaw),
        `flawed_correct/<role>` (share of the solutions with the right answer that have a flaw) and, if the task knows
        it, `implicit_share/<role>` (mean of the column over the solutions that did not fail).
    """
    correct = rows[rows["correct"].astype(bool)]
    valid = (1 - rows["num_flaws"] / rows["num_steps"]).clip(lower=0)  # a task may report several flaws per step
    figures = {
        f"step_validity/{role}": share_by_problem(valid, rows["problem_id"]),
        f"flawed_correct/{role}": rate_by_problem(correct["num_flaws"] > 0, correct["problem_id"]),
    }
    if "implicit_share" in rows and rows["implicit_share"].notna().any():
        known = rows[~has_failed(rows) & rows["implicit_share"].notna()]
        figures[f"implicit_share/{role}"] = share_by_problem(known["implicit_share"], known["problem_id"])
    return figures


def form_of(implicit_share: pd.Series) -> pd.Series:
    """
    Return the form of each solution by the share of its steps' content that it leaves implicit.

    `explicit` is a share of 0, `partly` one below a half, `implicit` the rest; null if the task does not know it.
    """
    forms = np.select([implicit_share == 0, implicit_share < 0.5, implicit_share >= 0.5], FORMS, default=None)
    return pd.Series(forms, index=implicit_share.index, dtype=object)


def acceptance_figures(rows: pd.DataFrame) -> dict[str, Figure]:
    """
    Compute which kinds of sneaky mistakes and which forms of solutions the verifier accepts.

    The threshold is that of the comparison of verifiers: a share of `COMPLETENESS` of the helpful correct solutions is
    accepted. The intervals take it as given.

    Args:
        rows (`pd.DataFrame`):
            Scored solutions of both roles that did not fail, with `first_flaw_kind` and `implicit_share` if the task
            has them.

    Returns:
        `dict[str, Figure]`: `accepted_flaw/KIND`, the share accepted of the sneaky incorrect solutions whose first flaw
        is of this kind; `accepted_form/SIDE/FORM`, that of the helpful correct and of the sneaky incorrect solutions of
        each form (`SIDE` is `helpful_correct` or `sneaky_incorrect`). Empty for tasks without these columns.
    """
    figures, accepted = {}, accepted_rows(rows)
    is_correct = accepted["correct"].astype(bool)
    sides = {"helpful_correct": accepted[is_correct], "sneaky_incorrect": accepted[~is_correct]}
    if "first_flaw_kind" in rows:
        for kind, group in sides["sneaky_incorrect"].groupby("first_flaw_kind"):
            figures[f"accepted_flaw/{kind}"] = _accepted_share(group)
    if "implicit_share" in rows:
        for side, group in sides.items():
            for form, members in group.groupby(form_of(group["implicit_share"])):
                figures[f"accepted_form/{side}/{form}"] = _accepted_share(members)
    return figures


def _accepted_share(rows: pd.DataFrame) -> Figure:
    return share_by_problem(rows["accepted"], rows["problem_id"])
