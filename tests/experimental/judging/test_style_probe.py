"""Share of a verifier's scores that style explains."""

import numpy as np
import pandas as pd
import pytest

from pvg_hf.core.roles import Role
from pvg_hf.experimental.judging.style_probe import style_figures
from pvg_hf.experimental.judging.text_features import (
    ends_with_number,
    form_features,
    group_features,
    length_features,
    readability_index,
)


@pytest.fixture(scope="module")
def solutions(draw_rows) -> pd.DataFrame:
    return draw_rows("test", Role.HELPFUL, 0, 0, np.random.default_rng(3))


def figures_of(rows: pd.DataFrame, scores) -> dict:
    return style_figures(rows.assign(score=scores), seed=0, num_resamples=200)


def test_scores_by_length_are_explained_by_length(solutions):
    figures = figures_of(solutions, solutions["solution"].str.len().map(np.log1p))
    assert figures["explained/length"].value > 0.99
    assert figures["explained/all"].value > 0.95
    assert figures["explained_within/all"].value > 0.95
    # Nothing is left of the scores once style is removed; the bound is generous, 4 standard errors of the AUC.
    assert abs(figures["auc/rest"].value - 0.5) < 0.15


def test_scores_by_truth_are_not_explained_by_style(solutions):
    figures = figures_of(solutions, solutions["correct"].astype(float))
    assert figures["explained/correct"].value == pytest.approx(1)
    assert figures["auc/score"].value == 1
    assert figures["auc/rest"].value > 0.95
    assert figures["explained/all"].value < 0.5
    assert figures["explained_within/all"].value is None  # nothing varies within correct or incorrect solutions


def test_random_scores_are_explained_by_nothing(solutions):
    figures = figures_of(solutions, np.random.default_rng(0).normal(size=len(solutions)))
    for name in ("length", "form", "wording", "all", "correct"):
        # Out of fold, noise is predicted no better than by the mean; correctness has one degree of freedom.
        assert figures[f"explained/{name}"].value < 0.03
    assert figures["explained/all"].n == len(solutions)
    assert figures["auc/style"].value is None  # the direction of what is fitted to noise is arbitrary


def test_the_share_within_classes_tells_a_judge_of_correctness_from_a_reader_of_style(solutions):
    """Correct solutions are longer here, so that style predicts the scores of a perfect checker, too."""
    correct = solutions["correct"].astype(bool)
    rows = solutions.assign(solution=solutions["solution"].where(~correct, "so so so so so\n" + solutions["solution"]))
    noise = np.random.default_rng(1).normal(size=len(rows)) / 10
    checker, reader = (
        figures_of(rows, correct + noise),
        figures_of(rows, rows["solution"].str.len().map(np.log1p) + noise),
    )
    assert min(checker["explained/all"].value, checker["auc/style"].value) > 0.6
    assert reader["explained/all"].value > 0.6
    assert checker["explained_within/all"].value < 0.05 < 0.3 < reader["explained_within/all"].value


def test_a_counter_of_flaws_has_the_share_of_the_flaws(solutions):
    """
    Solutions with more flaws are longer here: a checker's scores within incorrect solutions are explained by style,
    too.
    """
    draw = np.random.default_rng(2)
    flaws = np.where(solutions["correct"].astype(bool), 0, draw.integers(1, 5, size=len(solutions)))
    rows = solutions.assign(num_flaws=flaws)
    rows["solution"] += ["\nso it goes" * number for number in flaws]
    counter = figures_of(rows, -flaws)
    assert counter["explained_within/flaws"].value > 0.5
    assert counter["explained_within/all"].value == pytest.approx(counter["explained_within/flaws"].value)
    careless = figures_of(rows, draw.normal(size=len(rows)))
    assert careless["explained_within/all"].value < 0.03
    assert (
        careless["explained_within/flaws"] == counter["explained_within/flaws"]
    )  # whatever the verifier's scores are


@pytest.mark.parametrize("change", ["one problem", "equal scores"])
def test_nothing_is_fitted_to_too_little(solutions, change):
    rows = (
        solutions[solutions["problem_id"] == solutions["problem_id"].iloc[0]] if change == "one problem" else solutions
    )
    figures = figures_of(rows, 1.0 if change == "equal scores" else np.arange(len(rows)))
    assert {figure.value for figure in figures.values()} == {None}


def test_features_do_not_see_the_values_of_numbers():
    one, other = "Ana has 12\nBen has 6 more: 12 + 6 = 18\n#### 18", "Ana has 34\nBen has 7 more: 34 + 7 = 55\n#### 55"
    for name, values in group_features([one, other]).items():
        assert np.array_equal(values[0], values[1]), name


def test_words_are_counted_without_their_neighbours():
    features = group_features(["twice as many: 2 * 3 = 6", "as many: 3 = 2 + 6 twice"])
    assert np.allclose(features["wording"][0], features["wording"][1])


def test_length_and_form_by_hand():
    text = "Ana has 3\n3 + 4 = 5 + 2 = 7\n3 + 4 = 5 + 2 = 7\nSo it is 7."
    lengths = np.expm1(length_features([text]).iloc[0])
    # Words: Ana has So it is; numbers: 3, five in each equation, 7.
    assert lengths.round(6).to_dict() == {
        "num_characters": len(text),
        "num_words": 5,
        "num_numbers": 12,
        "num_lines": 4,
    }
    form = form_features([text]).iloc[0]
    assert form["words_per_line"] == 5 / 4
    assert form["longest_line"] == 3
    assert form["equation_lines"] == form["merged_lines"] == 1 / 2
    assert form["repeated_lines"] == 1 / 4
    assert form["operations_per_line"] == 4 / 4
    assert form["distinct_words"] == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("so 18", True),
        ("A: 18.", True),
        ("costs $18", True),
        ("18%", True),
        ("18 pens", False),
        ("", False),
        ("x18", False),
    ],
)
def test_ends_with_a_number(text, expected):
    assert ends_with_number(text) is expected


def test_readability_by_hand():
    # 6 words of 2, 3, 3, 3, 3, 2 characters in two sentences.
    assert readability_index("We add two and two.\nIt") == pytest.approx(4.71 * 16 / 6 + 0.5 * 6 / 2 - 21.43)
    assert np.isnan(readability_index("..."))
