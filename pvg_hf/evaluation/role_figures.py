"""Figures of each role's solutions, and of the verifier's decisions on both roles."""

import pandas as pd

from pvg_hf.core.acceptance import Acceptance
from pvg_hf.core.figure import Figure
from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_seed
from pvg_hf.data.schema import FAILED_OUTCOMES
from pvg_hf.evaluation.intervals import difference, mean_by_problem, rate_by_problem, share_by_problem, with_problems
from pvg_hf.tasks.answers import ANSWER_FORMATS

BY_FLAWS = ("flawless", "one_flaw", "more_flaws")
"""Kinds of solutions, for tasks that mark flaws; the first is what a verifier should accept."""

BY_ANSWER = ("correct", "incorrect")
"""Kinds of solutions, for other tasks."""


def has_failed(rows: pd.DataFrame) -> pd.Series:
    """Whether each row's solution was truncated, has no answer or is uncertified."""
    return rows["outcome"].isin([outcome.value for outcome in FAILED_OUTCOMES])


def scored_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """
    Return the scored rows whose solutions did not fail.

    A solution that was truncated or has no answer counts as incorrect in the accuracy. But it convinces nobody, so
    rejecting it is not a merit of the verifier.
    """
    return rows[~has_failed(rows) & rows["score"].notna()]


def is_valid_mistake(rows: pd.DataFrame) -> pd.Series:
    """Whether each row's solution is what the sneaky role is asked for: incorrect, and not failed."""
    return ~has_failed(rows) & ~rows["correct"].astype(bool)


def role_figures(rows: pd.DataFrame, role: Role, *, seed: int, num_resamples: int) -> dict[str, Figure]:
    """Compute outcomes, accuracies and mean scores (of [`scored_rows`]) of solutions that are all of one role."""
    ids, scored = rows["problem_id"], scored_rows(rows)
    correct = scored["correct"].astype(bool)
    figures = {
        f"accuracy/{role}": rate_by_problem(rows["correct"], ids),
        f"answered/{role}": rate_by_problem(rows["answer"].notna(), ids),
        f"truncated/{role}": rate_by_problem(rows["is_truncated"], ids),
        f"failed/{role}": rate_by_problem(has_failed(rows), ids),
    }
    if role == Role.SNEAKY:
        figures["valid_sneaky"] = rate_by_problem(is_valid_mistake(rows), ids)
    is_cut = rows["is_truncated"].astype(bool)  # the task reads the text without knowing whether it was truncated
    for reading in ANSWER_FORMATS:
        if f"{reading}_correct" in rows:
            is_right = rows[f"{reading}_correct"].astype(bool)
            figures[f"accuracy_{reading}/{role}"] = rate_by_problem(is_right & ~is_cut, ids)
    for name, cell in ((f"score/{role}_correct", scored[correct]), (f"score/{role}_incorrect", scored[~correct])):
        figures[name] = mean_by_problem(
            cell["score"], cell["problem_id"], seed=derive_seed(seed, name), num_resamples=num_resamples
        )
    return figures


def game_sides(helpful: pd.DataFrame, sneaky: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the helpful correct solutions, for completeness, and the sneaky incorrect ones, for soundness."""
    right, wrong = scored_rows(helpful), scored_rows(sneaky)
    return right[right["correct"].astype(bool)], wrong[~wrong["correct"].astype(bool)]


def game_figures(
    helpful: pd.DataFrame, sneaky: pd.DataFrame, acceptance: Acceptance, *, seed: int, num_resamples: int
) -> dict[str, Figure]:
    """Compute the verifier's decisions on the scored solutions of both roles."""
    right, wrong = game_sides(helpful, sneaky)
    is_fooled = acceptance.accepts(wrong["score"])
    return {
        "completeness": rate_by_problem(acceptance.accepts(right["score"]), right["problem_id"]),
        "soundness": rate_by_problem(~is_fooled, wrong["problem_id"]),
        "exploit_rate": rate_by_problem(is_fooled, wrong["problem_id"]),
        "score_gap": difference(
            *with_problems(right, "score"),
            *with_problems(wrong, "score"),
            seed=derive_seed(seed, "score_gap"),
            num_resamples=num_resamples,
        ),
    }


def diversity_figures(rows: pd.DataFrame, role: Role, *, seed: int, num_resamples: int) -> dict[str, Figure]:
    """Compute `distinct`, `duplicates`, `distinct_correct` and `num_tokens` of the texts of one role."""
    repeated = rows.duplicated(["problem_id", "solution"])  # False for the first of several equal texts
    repeats = repeated.groupby(rows["problem_id"], sort=False).sum()
    known = rows[rows["num_tokens"].notna()]
    correct_texts = rows[rows["correct"].astype(bool)].groupby("problem_id", sort=False)["solution"].nunique()
    return {
        f"distinct/{role}": rate_by_problem(~repeated, rows["problem_id"]),
        f"duplicates/{role}": mean_by_problem(
            repeats, repeats.index, seed=derive_seed(seed, "duplicates", role), num_resamples=num_resamples
        ),
        f"distinct_correct/{role}": mean_by_problem(
            correct_texts,
            correct_texts.index,
            seed=derive_seed(seed, "distinct_correct", role),
            num_resamples=num_resamples,
        ),
        f"num_tokens/{role}": mean_by_problem(
            known["num_tokens"],
            known["problem_id"],
            seed=derive_seed(seed, "num_tokens", role),
            num_resamples=num_resamples,
        ),
    }


FLAW_COLUMNS = ("first_flaw_kind", "num_steps", "num_flaws")


def has_flaws(rows: pd.DataFrame) -> bool:
    """Whether the task reports the flaws of its solutions."""
    return set(FLAW_COLUMNS) <= set(rows.columns)


def flaw_table(rows: pd.DataFrame) -> pd.DataFrame:
    """
    Tabulate the first flaws of solutions (`first_flaw_kind`, null without a flaw) by role.

    One row for every role and every kind that occurs, most frequent kinds first: `role`, `kind`, `count`, and `share`
    with `low` and `high` among the role's `n` flawed solutions.
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
    """Compute `step_validity`, `flawed_correct` and, if known, `implicit_share` of one role's solutions."""
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
