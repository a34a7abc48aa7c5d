"""Diversity of a prover's texts: distinct texts, duplicates and lengths."""

import pandas as pd

from pvg_hf.core.figure import Figure
from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_seed
from pvg_hf.evaluation.intervals import rate_by_problem
from pvg_hf.evaluation.resampling import mean_by_problem


def diversity_figures(rows: pd.DataFrame, role: Role, *, seed: int, num_resamples: int) -> dict[str, Figure]:
    """
    Compute diversity figures of one role's texts. Compare distinct shares only for equally many solutions per problem.

    Args:
        rows (`pd.DataFrame`):
            Solutions with `problem_id`, `solution` and `num_tokens`, all of this role.
        role ([`~pvg_hf.core.roles.Role`]):
            The role, which ends the keys.
        seed (`int`), num_resamples (`int`):
            Settings of the bootstrap over problems.

    Returns:
        `dict[str, Figure]`: `distinct/<role>` (distinct texts per problem over solutions; `n` solutions),
        `duplicates/<role>` (solutions of a problem that repeat another's text; `n` problems) and `num_tokens/<role>`
        (mean length in the prover's tokens; `n` solutions of known length).
    """
    repeated = rows.duplicated(["problem_id", "solution"])  # False for the first of several equal texts
    repeats = repeated.groupby(rows["problem_id"], sort=False).sum()
    known = rows[rows["num_tokens"].notna()]
    return {
        f"distinct/{role}": rate_by_problem(~repeated, rows["problem_id"]),
        f"duplicates/{role}": mean_by_problem(
            repeats, repeats.index, seed=derive_seed(seed, "duplicates", role), num_resamples=num_resamples
        ),
        f"num_tokens/{role}": mean_by_problem(
            known["num_tokens"],
            known["problem_id"],
            seed=derive_seed(seed, "num_tokens", role),
            num_resamples=num_resamples,
        ),
    }
