"""Figures of the roles, worked by hand on a few rows."""

import pandas as pd
import pytest

from pvg_hf.core.acceptance import Acceptance
from pvg_hf.core.figure import rate
from pvg_hf.core.roles import Role
from pvg_hf.evaluation.accepted_by_kind import acceptance_figures, form_of
from pvg_hf.evaluation.role_figures import (
    diversity_figures,
    flaw_figures,
    flaw_table,
    game_figures,
    has_flaws,
    role_figures,
    scored_rows,
)

DRAWS = {"seed": 0, "num_resamples": 200}
COLUMNS = [
    "problem_id",
    "correct",
    "strict_correct",
    "lenient_correct",
    "answer",
    "outcome",
    "score",
    "is_truncated",
]


def as_rows(*rows):
    return pd.DataFrame(rows, columns=COLUMNS)


@pytest.fixture
def helpful():
    return as_rows(
        ("a", True, True, True, "1", "VERIFIED", 2.0, False),
        ("b", True, False, True, "1", "VERIFIED", 0.5, False),
        ("c", False, False, True, "1.", "PROOF_INVALID", -1.0, False),
        ("d", False, False, False, None, "TRUNCATED", 3.0, True),
    )


@pytest.fixture
def sneaky():
    return as_rows(
        ("a", False, False, False, "2", "PROOF_INVALID", 1.5, False),
        ("b", False, False, False, "2", "PROOF_INVALID", 1.0, False),
        ("c", False, False, False, "2", "PROOF_INVALID", -0.5, False),
        ("d", True, True, True, "1", "VERIFIED", 4.0, False),
        ("e", False, False, False, None, "NO_ANSWER", 9.0, False),
    )


def test_role_figures_by_hand(helpful):
    figures = role_figures(helpful, Role.HELPFUL, **DRAWS)
    assert figures["accuracy/helpful"] == rate(2, 4)
    assert figures["accuracy_strict/helpful"] == rate(1, 4)
    assert figures["accuracy_lenient/helpful"] == rate(3, 4)
    assert figures["answered/helpful"] == rate(3, 4)
    assert figures["truncated/helpful"] == rate(1, 4)
    assert figures["failed/helpful"] == rate(1, 4)
    assert "valid_sneaky" not in figures
    assert (figures["score/helpful_correct"].value, figures["score/helpful_correct"].n) == (1.25, 2)
    # The truncated solution's 3.0 is not a convincing mistake.
    assert (figures["score/helpful_incorrect"].value, figures["score/helpful_incorrect"].n) == (-1.0, 1)


def test_failed_solutions_are_incorrect_but_not_valid_mistakes(sneaky):
    figures = role_figures(sneaky, Role.SNEAKY, **DRAWS)
    assert figures["accuracy/sneaky"] == rate(1, 5)
    assert figures["valid_sneaky"] == rate(3, 5)
    assert figures["failed/sneaky"] == rate(1, 5)


def test_a_cut_text_has_no_answer_in_either_reading(helpful):
    cut = helpful.assign(is_truncated=[True, False, True, True])
    figures = role_figures(cut, Role.HELPFUL, **DRAWS)
    assert figures["accuracy_strict/helpful"] == rate(0, 4)
    assert figures["accuracy_lenient/helpful"] == rate(1, 4)


def test_a_task_with_one_reading_has_one_accuracy(helpful):
    figures = role_figures(helpful.drop(columns=["strict_correct", "lenient_correct"]), Role.HELPFUL, **DRAWS)
    assert [name for name in figures if name.startswith("accuracy")] == ["accuracy/helpful"]


def test_completeness_soundness_and_gap_by_hand(helpful, sneaky):
    figures = game_figures(helpful, sneaky, Acceptance(1.0), **DRAWS)
    assert figures["completeness"] == rate(1, 2)  # 2.0 of 2.0, 0.5
    assert figures["soundness"] == rate(1, 3)  # -0.5 of 1.5, 1.0 (at the threshold) and -0.5
    assert figures["exploit_rate"] == rate(2, 3)
    assert figures["score_gap"].value == pytest.approx(1.25 - 2 / 3)
    assert figures["score_gap"].n == 3


def test_failed_and_unscored_rows_are_not_judged(sneaky):
    unscored = sneaky.assign(score=[None, 1.0, -0.5, 4.0, 9.0])
    assert scored_rows(unscored)["problem_id"].tolist() == ["b", "c", "d"]
    uncertified = sneaky.assign(outcome="UNCERTIFIED")
    assert scored_rows(uncertified).empty


def test_a_round_without_a_role_gives_empty_figures(sneaky):
    figures = game_figures(as_rows(), sneaky, Acceptance(1.0), **DRAWS)
    assert figures["completeness"].value is None
    assert figures["score_gap"].n == 0
    assert figures["soundness"] == rate(1, 3)


def test_distinct_texts_duplicates_and_length_by_hand():
    rows = pd.DataFrame(
        [("a", "x", 4, True), ("a", "x", 4, True), ("a", "y", 7, True), ("b", "x", None, False)],
        columns=["problem_id", "solution", "num_tokens", "correct"],
    )
    figures = diversity_figures(rows, Role.SNEAKY, **DRAWS)
    # Problem a has 2 distinct of 3 (one repeats), b 1 of 1; the same text under two problems is not a repeat.
    assert (figures["distinct/sneaky"].value, figures["distinct/sneaky"].n) == (pytest.approx(3 / 4), 4)
    assert (figures["duplicates/sneaky"].value, figures["duplicates/sneaky"].n) == (0.5, 2)
    # Of the problems, only a has a correct solution: two texts.
    assert (figures["distinct_correct/sneaky"].value, figures["distinct_correct/sneaky"].n) == (2.0, 1)
    assert (figures["num_tokens/sneaky"].value, figures["num_tokens/sneaky"].n) == (5.0, 3)


def test_no_solutions_give_empty_figures_of_diversity():
    rows = pd.DataFrame(columns=["problem_id", "solution", "num_tokens", "correct"])
    assert {figure.n for figure in diversity_figures(rows, Role.HELPFUL, **DRAWS).values()} == {0}


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
