"""First flaws and step validity, counted by hand."""

import pandas as pd
import pytest

from pvg_hf.core.roles import Role
from pvg_hf.evaluation.flaw_figures import flaw_figures, flaw_table, has_flaws
from pvg_hf.evaluation.intervals import rate


@pytest.fixture
def rows():
    return pd.DataFrame(
        [
            ("a", "helpful", True, None, 4, 0),
            ("b", "helpful", True, "wrong_sum", 4, 2),  # two mistakes that cancel
            ("c", "helpful", False, "wrong_sum", 5, 1),
            ("a", "sneaky", False, "dropped_step", 4, 1),
            ("b", "sneaky", False, "wrong_sum", 4, 1),
            ("c", "sneaky", False, "wrong_sum", 4, 1),
        ],
        columns=["problem_id", "role", "correct", "first_flaw_kind", "num_steps", "num_flaws"],
    )


def test_flaw_table_by_hand(rows):
    table = flaw_table(rows)
    counts = {
        (row.role, row.kind): (row.count_, row.n) for row in table.rename(columns={"count": "count_"}).itertuples()
    }
    assert counts == {
        ("helpful", "wrong_sum"): (2, 2),
        ("sneaky", "wrong_sum"): (2, 3),
        ("helpful", "dropped_step"): (0, 2),
        ("sneaky", "dropped_step"): (1, 3),
    }
    assert table["kind"].tolist() == ["wrong_sum", "wrong_sum", "dropped_step", "dropped_step"]  # most frequent first
    expected = rate(2, 3)
    assert tuple(table.loc[1, ["share", "low", "high"]]) == pytest.approx(
        (expected.value, expected.low, expected.high)
    )


def test_step_validity_by_hand(rows):
    figures = flaw_figures(rows[rows["role"] == "helpful"], Role.HELPFUL)
    assert figures["step_validity/helpful"].value == pytest.approx((1 + 1 / 2 + 4 / 5) / 3)
    assert figures["flawed_correct/helpful"] == rate(1, 2)


def test_tasks_without_flaws_have_no_flaw_figures(rows):
    assert has_flaws(rows)
    assert not has_flaws(rows.drop(columns="num_steps"))


def test_no_flaw_at_all_gives_an_empty_table(rows):
    assert flaw_table(rows.head(1)).empty
