"""Folds of solutions that share no problem."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from pvg_hf.core.seeding import derive_seed


def problem_folds(problem_ids: pd.Series, *, num_folds: int, seed: int) -> Iterator[np.ndarray]:
    """
    Yield the rows of each fold, as booleans. All solutions of a problem are in one fold.

    Args:
        problem_ids (`pd.Series` of length n):
            Problem of each row.
        num_folds (`int`):
            Number of folds, at least 2. Their numbers of problems differ by at most one; a seeded hash of the ids
            assigns them. With fewer problems than folds, there are as many folds as problems.
        seed (`int`):
            Seed of the hash.

    Yields:
        `np.ndarray` of shape `(n,)`.

    Raises:
        ValueError: if `num_folds` is below 2.
    """
    if num_folds < 2:
        raise ValueError(
            f"`num_folds` is {num_folds}; it must be at least 2, so that each fold has others to learn from."
        )
    ordered = sorted(problem_ids.unique(), key=lambda problem_id: derive_seed(seed, problem_id))
    place = {problem_id: index % num_folds for index, problem_id in enumerate(ordered)}
    folds = problem_ids.map(place).to_numpy()
    for fold in range(min(num_folds, len(ordered))):
        yield folds == fold
