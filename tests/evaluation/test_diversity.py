"""Diversity, counted by hand."""

import pandas as pd
import pytest

from pvg_hf.core.roles import Role
from pvg_hf.evaluation.role_figures import diversity_figures

DRAWS = {"seed": 0, "num_resamples": 200}


def test_distinct_texts_duplicates_and_length_by_hand():
    rows = pd.DataFrame(
        [("a", "x", True, 4), ("a", "x", True, 4), ("a", "y", True, 7), ("b", "x", False, None)],
        columns=["problem_id", "solution", "correct", "num_tokens"],
    )
    figures = diversity_figures(rows, Role.SNEAKY, **DRAWS)
    # Problem a has 2 distinct of 3 (one repeats), b 1 of 1; the same text under two problems is not a repeat.
    assert (figures["distinct/sneaky"].value, figures["distinct/sneaky"].n) == (pytest.approx(3 / 4), 4)
    assert (figures["duplicates/sneaky"].value, figures["duplicates/sneaky"].n) == (0.5, 2)
    # Two correct texts of a; b has none and does not count.
    assert (figures["distinct_correct/sneaky"].value, figures["distinct_correct/sneaky"].n) == (2.0, 1)
    assert (figures["num_tokens/sneaky"].value, figures["num_tokens/sneaky"].n) == (5.0, 3)


def test_no_solutions_give_empty_figures():
    rows = pd.DataFrame(columns=["problem_id", "solution", "correct", "num_tokens"])
    assert {figure.n for figure in diversity_figures(rows, Role.HELPFUL, **DRAWS).values()} == {0}
