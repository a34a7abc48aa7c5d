"""Verifier quality."""

import json
import math
from math import nan

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from pvg_hf.core.figure import rate
from pvg_hf.evaluation.verifier_quality import (
    best_separation,
    calibration_error,
    evaluation_figures,
    judge_crossfitted,
    label_figures,
    pair_accuracy,
    pair_wins,
    quality_figures,
    roc_auc,
)

DRAWS = {"seed": 0, "num_resamples": 200}
ONCE = np.ones((1, 6))


def as_rows(*rows):
    return pd.DataFrame(rows, columns=["problem_id", "score", "correct"])


def test_pair_accuracy_by_hand():
    rows = as_rows(
        ("a", 2.0, True),
        ("a", 1.0, True),
        ("a", 1.0, False),  # pairs of a: 2 > 1 won, 1 = 1 half
        ("b", 0.0, True),
        ("b", 5.0, False),  # pair of b: lost
        ("c", 9.0, True),  # no pair: b's 5.0 is another problem's
    )
    figure = pair_accuracy(rows)
    assert (figure.value, figure.n) == (pytest.approx(1.5 / 3), 3)


def test_pair_accuracy_without_pairs_is_empty():
    assert pair_accuracy(as_rows(("a", 1.0, True), ("b", 0.0, False))).n == 0
    assert pair_accuracy(as_rows()).n == 0


scored = st.lists(st.tuples(st.integers(-2, 2), st.booleans()), min_size=2, max_size=12)


@given(scored)
def test_pair_accuracy_and_auc_of_one_problem_are_the_same_count(rows):
    scores, correct = (np.array(column) for column in zip(*rows))
    wins = [(s > t) + (s == t) / 2 for s in scores[correct] for t in scores[~correct]]
    table = as_rows(*(("a", s, c) for s, c in rows))
    auc, pairs = roc_auc(table), pair_accuracy(table)
    if wins:
        assert auc.value == pytest.approx(np.mean(wins))
        assert (pairs.value, pairs.n) == (pytest.approx(np.mean(wins)), len(wins))
    else:
        assert auc.value is None
        assert pairs.value is None


def test_auc_agrees_with_scikit_learn():
    rng = np.random.default_rng(0)
    scores, correct = rng.integers(0, 8, 60).astype(float), rng.random(60) < 0.4
    rows = as_rows(*zip(rng.integers(0, 15, 60), scores, correct))
    assert roc_auc(rows).value == pytest.approx(roc_auc_score(correct, scores))


def test_auc_interval_by_hand():
    # Ten problems with a correct and an incorrect solution each. Correct score 3 (seven times) and 1 (thrice),
    # incorrect 2: AUC = .7. A problem's correct solution is ahead of all or none of the others, and each incorrect one
    # is behind .7 of them, its mean: excesses .03 (seven) and -.07 (three), squares .0063 + .0147 = .021; v = .021 *
    # 10/9 = .02333; .21 / v = 9, and fewer by (z / t)^2: no less than the ten problems. So it is as 7 of 10.
    rows = as_rows(*((k, 3.0 if k < 7 else 1.0, True) for k in range(10)), *((k, 2.0, False) for k in range(10)))
    figure = roc_auc(rows)
    assert (figure.value, figure.low, figure.high) == pytest.approx((0.7, rate(7, 10).low, rate(7, 10).high))
    assert figure.n == 20


def test_perfect_scores_on_few_problems_keep_a_wide_interval():
    """The interval is that of as many successes as there are problems."""
    rows = as_rows(("a", 1.0, True), ("a", 0.0, False), ("b", 1.0, True), ("b", 0.0, False))
    figures = quality_figures(rows.assign(judged_correct=rows["correct"]), **DRAWS)
    for name in ("pair_accuracy", "auc"):
        assert (figures[name].value, figures[name].low) == (1.0, pytest.approx(rate(2, 2).low)), name
    # Newcombe's difference of 2 of 2 and 0 of 2, which stand z^2 / (2 + z^2) from their bounds.
    bound = 1 - rate(2, 2).low
    assert (figures["youden_j"].value, figures["youden_j"].low) == (1.0, pytest.approx(1 - math.sqrt(2) * bound))


def test_calibration_error_by_hand():
    # sigmoid(log 4) = .8 (bin 8), sigmoid(-log 4) = .2 (bin 2). Bin 8: 1 of 2 correct, |.5 - .8| = .3;
    # bin 2: 1 of 4 correct, |.25 - .2| = .05. ECE = 2/6 * .3 + 4/6 * .05 = .4/3.
    scores = math.log(4) * np.array([1, 1, -1, -1, -1, -1])
    correct = np.array([1, 0, 1, 0, 0, 0], bool)
    assert calibration_error(scores, correct)(ONCE)[0] == pytest.approx(0.4 / 3)


def test_calibration_error_of_extreme_scores_is_finite():
    scores, correct = np.array([800.0, -800.0]), np.array([True, False])
    assert calibration_error(scores, correct)(np.ones((1, 2)))[0] == pytest.approx(0, abs=1e-12)


def test_threshold_by_hand():
    # Above 1: TPR 1, FPR 1/2, J .5. Above 2: TPR 1, FPR 0, J 1. Above 4: TPR 1/2, FPR 0. The midpoint of 2 and 4 is 3.
    assert best_separation([1, 2, 4, 5], [False, False, True, True]) == 3


def test_of_equally_good_thresholds_the_lowest_is_taken():
    # J is 1/2 above 1 (TPR 1, FPR 1/2) and above 3 (TPR 1/2, FPR 0).
    assert best_separation([1, 2, 3, 4], [False, True, False, True]) == 1.5


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.booleans()), min_size=2, max_size=20))
def test_no_other_threshold_has_a_higher_youden_j(rows):
    scores, correct = (np.array(column) for column in zip(*rows))
    if correct.all() or not correct.any() or len(set(scores)) < 2:
        with pytest.raises(ValueError, match=r"got \d+ correct, \d+ incorrect"):
            best_separation(scores, correct)
        return

    def quality(threshold):
        accepted = scores > threshold
        return accepted[correct].mean() - accepted[~correct].mean()

    # Accepting everything (J = 0) is not a threshold between scores.
    cuts = np.unique(scores)[:-1]
    assert quality(best_separation(scores, correct)) == pytest.approx(max(map(quality, cuts)))


def test_quality_figures_by_hand():
    rows = as_rows(
        ("a", 2.0, True),
        ("a", 1.0, False),  # accepted although incorrect
        ("b", 1.0, True),
        ("b", -1.0, False),
        ("c", 0.0, True),  # at the threshold: not accepted
        ("c", -2.0, False),
    )
    figures = quality_figures(rows.assign(judged_correct=rows["score"] > 0), **DRAWS)
    values = {name: figure.value for name, figure in figures.items()}
    assert values["pair_accuracy"] == 1  # within each problem the correct one is ahead
    assert values["auc"] == pytest.approx((3 + 2.5 + 2) / 9)
    assert values["accuracy"] == pytest.approx(4 / 6)
    assert (values["tpr"], values["fpr"]) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert values["youden_j"] == pytest.approx(1 / 3)
    assert [figures[name].n for name in ("pair_accuracy", "auc", "accuracy", "tpr", "fpr")] == [3, 6, 6, 3, 3]


def test_incorrect_solutions_are_compared_with_the_given_correct_ones():
    wrong = as_rows(("a", 1.0, False), ("b", 3.0, False)).assign(judged_correct=[False, True])
    right = as_rows(("a", 2.0, True), ("b", 2.0, True), ("b", 4.0, True)).assign(judged_correct=[True, True, True])
    figures = quality_figures(wrong, compared=right, **DRAWS)
    assert (figures["pair_accuracy"].value, figures["pair_accuracy"].n) == (pytest.approx(2 / 3), 3)
    assert figures["auc"].value == pytest.approx((3 + 1) / 6)
    assert figures["youden_j"].value == 1 - 1 / 2
    assert (figures["accuracy"].value, figures["fpr"].value) == (0.5, 0.5)  # of the solutions themselves
    assert figures["tpr"].n == 0


def test_figures_of_one_class_are_empty_and_not_nan():
    rows = as_rows(("a", 1.0, True), ("b", 2.0, True)).assign(judged_correct=True)
    figures = quality_figures(rows, **DRAWS)
    assert figures["auc"].value is None
    assert figures["fpr"].n == figures["youden_j"].n == 0


def test_each_half_is_judged_at_the_threshold_of_the_other():
    # Two problems, so that each is a half: a's threshold is 1.5, b's 11.5.
    rows = as_rows(("a", 1.0, False), ("a", 2.0, True), ("b", 11.0, False), ("b", 12.0, True))
    assert judge_crossfitted(rows, seed=0).tolist() == [False, False, True, True]


def test_a_half_without_a_threshold_from_the_other_is_not_judged():
    rows = as_rows(("a", 1.0, False), ("a", 2.0, True), ("b", 11.0, False), ("b", 12.0, False))
    accepted = judge_crossfitted(rows.set_index(pd.Index([7, 8, 9, 10])), seed=0)
    assert accepted.isna().tolist() == [True, True, False, False]
    assert accepted[[9, 10]].all()
    figures = quality_figures(rows.assign(judged_correct=accepted.array), **DRAWS)
    assert (figures["accuracy"].n, figures["tpr"].n, figures["fpr"].n) == (2, 0, 2)


def test_random_scores_have_no_skill_at_a_threshold():
    # 60 problems with a solution each, 200 times: J has a standard deviation of about sqrt(.25/30 + .25/30) = .13
    # each, its mean one of .009, so four of these are .037. At the threshold chosen on the same rows the mean is .15.
    rng = np.random.default_rng(0)
    skills = []
    for _ in range(200):
        rows = as_rows(*zip(range(60), rng.normal(size=60), np.arange(60) % 2 == 0))
        accepted = judge_crossfitted(rows, seed=0).astype(bool)
        skills.append(accepted[rows["correct"]].mean() - accepted[~rows["correct"]].mean())
    assert abs(np.mean(skills)) < 0.037


@pytest.mark.parametrize(("right", "wrong", "won"), [(2.0, 1.0, 1.0), (1.0, 1.0, 0.5), (0.0, 1.0, 0.0)])
def test_a_tied_pair_is_half_won(right, wrong, won):
    assert pair_wins(np.array([right]), np.array([wrong])).tolist() == [won]


def test_figures_of_evaluations_by_hand():
    rows = pd.DataFrame(
        {
            "problem_id": ["a", "b", "c", "d", "e"],
            "reference": [0.0, 0.0, 0.5, 1.0, 0.0],
            "predicted": [1.0, 0.0, 0.5, nan, nan],
            "has_form": [True, True, True, False, False],
            "issues": [
                json.dumps([["x", False], ["y", True]]),
                json.dumps([["x", True], ["z", True]]),
                "[]",
                "[]",
                "[]",
            ],
        }
    )
    values = {key: (figure.value, figure.n) for key, figure in evaluation_figures(rows).items()}
    assert values["evaluations/format_rate"] == (0.6, 5)
    assert values["evaluations/accuracy"] == (0.4, 5)
    assert values["evaluations/false_positive_rate"] == (pytest.approx(1 / 3), 3)
    assert values["evaluations/confusion/0_as_none"] == (pytest.approx(1 / 3), 3)
    assert values["evaluations/confusion/0.5_as_0.5"] == (1.0, 1)
    assert values["evaluations/confusion/1_as_1"] == (0.0, 1)
    assert values["evaluations/hallucinated"] == (0.25, 4)


def test_without_named_issues_no_share_is_reported():
    rows = pd.DataFrame(
        {"problem_id": ["a"], "reference": [1.0], "predicted": [1.0], "has_form": [True], "issues": ["[]"]}
    )
    assert evaluation_figures(rows)["evaluations/hallucinated"].value is None


def test_figures_of_labels_by_hand():
    labels = pd.DataFrame(
        {"problem_id": list("abcd"), "reference": [1.0, 0.5, 0.0, 0.0], "label": [1.0, 0.0, nan, 0.0]}
    )
    values = {key: (figure.value, figure.n) for key, figure in label_figures(labels).items()}
    assert values == {"labels/coverage": (0.75, 4), "labels/precision": (pytest.approx(2 / 3), 3)}
