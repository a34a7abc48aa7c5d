"""Figures of the roles, worked by hand on a few rows."""

import pandas as pd
import pytest

from pvg_hf.core.roles import Role
from pvg_hf.evaluation.intervals import rate
from pvg_hf.evaluation.role_figures import diversity_figures, game_figures, role_figures, scored_rows

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
    figures = game_figures(helpful, sneaky, threshold=1.0, **DRAWS)
    assert figures["completeness"] == rate(1, 2)  # 2.0 of 2.0, 0.5
    assert figures["soundness"] == rate(2, 3)  # 1.0 (at the threshold) and -0.5 of 1.5, 1.0, -0.5
    assert figures["exploit_rate"] == rate(1, 3)
    assert figures["score_gap"].value == pytest.approx(1.25 - 2 / 3)
    assert figures["score_gap"].n == 3


def test_failed_and_unscored_rows_are_not_judged(sneaky):
    unscored = sneaky.assign(score=[None, 1.0, -0.5, 4.0, 9.0])
    assert scored_rows(unscored)["problem_id"].tolist() == ["b", "c", "d"]
    uncertified = sneaky.assign(outcome="UNCERTIFIED")
    assert scored_rows(uncertified).empty


def test_a_round_without_a_role_gives_empty_figures(sneaky):
    figures = game_figures(as_rows(), sneaky, threshold=1.0, **DRAWS)
    assert figures["completeness"].value is None
    assert figures["score_gap"].n == 0
    assert figures["soundness"] == rate(2, 3)


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
