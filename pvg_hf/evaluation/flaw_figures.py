"""Flaws of solutions, for tasks that detect them (`first_flaw_kind`, `num_steps`, `num_flaws`)."""

import pandas as pd

from pvg_hf.core.figure import Figure
from pvg_hf.core.roles import Role
from pvg_hf.evaluation.intervals import rate_by_problem, share_by_problem

FLAW_COLUMNS = ("first_flaw_kind", "num_steps", "num_flaws")


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
    Compute the step validity of one role's solutions.

    Args:
        rows (`pd.DataFrame`):
            Solutions with `FLAW_COLUMNS`, all of this role.
        role ([`~pvg_hf.core.roles.Role`]):
            The role, which ends the keys.

    Returns:
        `dict[str, Figure]`: `step_validity/<role>` (mean share of a solution's steps without a flaw) and
        `flawed_correct/<role>` (share of the solutions with the right answer that have a flaw).
    """
    correct = rows[rows["correct"].astype(bool)]
    valid = (1 - rows["num_flaws"] / rows["num_steps"]).clip(lower=0)  # a task may report several flaws per step
    return {
        f"step_validity/{role}": share_by_problem(valid, rows["problem_id"]),
        f"flawed_correct/{role}": rate_by_problem(correct["num_flaws"] > 0, correct["problem_id"]),
    }
