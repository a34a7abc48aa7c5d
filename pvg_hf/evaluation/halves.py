"""Problems in two halves, so that nothing is chosen on the problems that it is judged by."""

import pandas as pd

from pvg_hf.seeding import derive_seed


def first_half(problem_ids: pd.Series, *, seed: int) -> pd.Series:
    """
    Whether each row's problem is in the first of two halves, which go by a seeded hash of the problems' ids.

    Args:
        problem_ids (`pd.Series`):
            Of the rows.
        seed (`int`):
            Of the hash.
    """
    ordered = sorted(problem_ids.unique(), key=lambda problem_id: derive_seed(seed, problem_id))
    return problem_ids.isin(ordered[::2])
