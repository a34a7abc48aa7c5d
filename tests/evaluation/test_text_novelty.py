"""New texts of a round, counted by hand."""

import pandas as pd
import pytest

from pvg_hf.core.roles import Role
from pvg_hf.evaluation.text_novelty import new_text_figures
from tests.support.pool_rows import solution


@pytest.fixture
def pool(tmp_path):
    """Write a pool file of (problem, text, whether it is correct, changed columns)."""

    def write(name, rows):
        path = tmp_path / f"{name}.parquet"
        pd.DataFrame([solution(problem, text, int(ok), **changes) for problem, text, ok, changes in rows]).to_parquet(
            path
        )
        return path

    return write


def test_texts_of_the_same_problem_are_compared(pool):
    base = pool("base", [("p", "one", True, {}), ("p", "wrong", False, {}), ("q", "two", True, {})])
    helpful = pool(
        "helpful",
        [
            ("p", " one\n", True, {}),  # known, up to white space
            ("p", "two", True, {}),  # known for another problem only
            ("p", "two", True, {"sample": 1}),  # counted once
            ("q", "three", True, {}),
            ("q", "cut", False, {"outcome": "TRUNCATED"}),  # failed
        ],
    )
    sneaky = pool("sneaky", [("p", "wrong", False, {}), ("p", "two", True, {})])
    figures = new_text_figures([base], {Role.HELPFUL: helpful, Role.SNEAKY: sneaky})
    assert {name: (figure.value, figure.n) for name, figure in figures.items()} == {
        "new_texts/helpful_correct": (pytest.approx(2 / 3), 3),
        "new_texts/helpful_incorrect": (None, 0),
        "new_texts/sneaky_correct": (1.0, 1),  # both roles of a round may write a text first
        "new_texts/sneaky_incorrect": (0.0, 1),
    }
