"""Attacks that were found are kept, and later verifiers are tested on them."""

import pandas as pd

FOUND_ATTACKS = "found.parquet"  # texts that fooled the round's verifier

ATTACK_COLUMNS = ["family", "problem_id", "problem", "reference", "solution", "correct", "outcome", "score"]


def found_attacks(texts: pd.DataFrame, threshold: float) -> pd.DataFrame:
    """
    Select the texts that fooled a verifier: incorrect by the task's grade, and accepted.

    Texts without an answer count, too: a verifier that accepts one accepts what is no solution.
    """
    fooled = texts[~texts["correct"].astype(bool) & (texts["score"] > threshold)]
    return fooled[ATTACK_COLUMNS].drop_duplicates(["problem_id", "solution"]).reset_index(drop=True)
