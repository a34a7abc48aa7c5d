"""First flaws and step validity, counted by hand."""

import pandas as pd
import pytest

from pvg_hf.core.roles import Role
from pvg_hf.evaluation.flaw_figures import acceptance_figures, flaw_figures, flaw_table, form_of, has_flaws
from pvg_hf.evaluation.intervals import rate


@pytest.fixture
def rows():
    return pd.DataFrame(
        [
            ("a", "helpful", True, None, 4, 0, "VERIFIED"),
            ("b", "helpful", True, "wrong_sum", 4, 2, "VERIFIED"),  # two mistakes that cancel
            ("c", "helpful", False, "wrong_sum", 5, 1, "TRUNCATED"),
            ("a", "sneaky", False, "dropped_step", 4, 1, "PROOF_INVALID"),
            ("b", "sneaky", False, "wrong_sum", 4, 1, "PROOF_INVALID"),
            ("c", "sneaky", False, "wrong_sum", 4, 1, "PROOF_INVALID"),
        ],
        columns=["problem_id", "role", "correct", "first_flaw_kind", "num_steps", "num_flaws", "outcome"],
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


def test_implicit_share_leaves_out_failed_solutions_and_unknown_shares(rows):
    helpful = rows[rows["role"] == "helpful"].assign(implicit_share=[0.5, None, 1.0])  # the last was truncated
    figure = flaw_figures(helpful, Role.HELPFUL)["implicit_share/helpful"]
    assert (figure.value, figure.n) == (0.5, 1)
    for unknown in (helpful.drop(columns="implicit_share"), helpful.assign(implicit_share=None)):
        assert "implicit_share/helpful" not in flaw_figures(unknown, Role.HELPFUL)


def test_tasks_without_flaws_have_no_flaw_figures(rows):
    assert has_flaws(rows)
    assert not has_flaws(rows.drop(columns="num_steps"))


def test_no_flaw_at_all_gives_an_empty_table(rows):
    assert flaw_table(rows.head(1)).empty


@pytest.mark.parametrize(
    ("share", "form"), [(0.0, "explicit"), (0.01, "partly"), (0.49, "partly"), (0.5, "implicit"), (1.0, "implicit")]
)
def test_forms_of_solutions(share, form):
    assert form_of(pd.Series([share])).tolist() == [form]


def test_acceptance_by_kind_and_form_by_hand():
    """Helpful correct solutions score 1 to 20. At 95 % completeness, 19 of them are accepted: those from 2 up."""
    helpful = [(f"p{k}", "helpful", True, None, float(k + 1), 0.0 if k < 10 else 0.6) for k in range(20)]
    sneaky = [
        ("p0", "sneaky", False, "wrong_sum", 3.0, 0.0),
        ("p1", "sneaky", False, "wrong_sum", 1.5, 0.3),
        ("p2", "sneaky", False, "dropped_step", 9.0, 0.9),
        ("p3", "sneaky", True, None, 9.0, 0.9),  # not asked of the role
        ("p4", "helpful", False, "wrong_sum", 9.0, 0.9),
    ]
    columns = ["problem_id", "role", "correct", "first_flaw_kind", "score", "implicit_share"]
    rows = pd.DataFrame(helpful + sneaky, columns=columns)
    figures = acceptance_figures(rows)
    assert {name: (figure.value, figure.n) for name, figure in figures.items()} == {
        "accepted_flaw/wrong_sum": (0.5, 2),
        "accepted_flaw/dropped_step": (1.0, 1),
        "accepted_form/helpful_correct/explicit": (pytest.approx(0.9), 10),
        "accepted_form/helpful_correct/implicit": (1.0, 10),
        "accepted_form/sneaky_incorrect/explicit": (1.0, 1),
        "accepted_form/sneaky_incorrect/partly": (0.0, 1),
        "accepted_form/sneaky_incorrect/implicit": (1.0, 1),
    }


def test_tasks_without_the_columns_have_no_such_figures():
    rows = pd.DataFrame({"problem_id": ["a"], "role": ["helpful"], "correct": [True], "score": [1.0]})
    assert acceptance_figures(rows) == {}
