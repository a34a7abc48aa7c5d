"""Verifier quality."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from pvg_hf.evaluation.verifier_quality import (
    calibration_error,
    choose_threshold,
    pair_accuracy,
    quality_figures,
    roc_auc,
    youden_j,
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
    figure = pair_accuracy(rows, **DRAWS)
    assert (figure.value, figure.n) == (pytest.approx(1.5 / 3), 3)


def test_pair_accuracy_without_pairs_is_empty():
    assert pair_accuracy(as_rows(("a", 1.0, True), ("b", 0.0, False)), **DRAWS).n == 0
    assert pair_accuracy(as_rows(), **DRAWS).n == 0


scored = st.lists(st.tuples(st.integers(-2, 2), st.booleans()), min_size=2, max_size=12)


@settings(deadline=None)
@given(scored)
def test_pair_accuracy_and_auc_of_one_problem_are_the_same_count(rows):
    scores, correct = (np.array(column) for column in zip(*rows))
    wins = [(s > t) + (s == t) / 2 for s in scores[correct] for t in scores[~correct]]
    auc = roc_auc(scores.astype(float), correct)(np.ones((1, len(scores))))[0]
    pairs = pair_accuracy(as_rows(*(("a", s, c) for s, c in rows)), **DRAWS)
    if wins:
        assert auc == pytest.approx(np.mean(wins))
        assert (pairs.value, pairs.n) == (pytest.approx(np.mean(wins)), len(wins))
    else:
        assert math.isnan(auc)
        assert pairs.value is None


def test_weighted_auc_agrees_with_scikit_learn():
    rng = np.random.default_rng(0)
    scores, correct = rng.integers(0, 8, 60).astype(float), rng.random(60) < 0.4
    weights = rng.integers(0, 4, (5, 60)).astype(float)
    expected = [roc_auc_score(correct, scores, sample_weight=row) for row in weights]
    assert roc_auc(scores, correct)(weights) == pytest.approx(expected)


def test_youden_j_by_hand():
    # Correct: 2 of 3 accepted; incorrect: 1 of 3 accepted; J = 2/3 - 1/3.
    accepted, correct = np.array([1, 1, 0, 1, 0, 0], bool), np.array([1, 1, 1, 0, 0, 0], bool)
    assert youden_j(accepted, correct)(ONCE)[0] == pytest.approx(1 / 3)


def test_calibration_error_by_hand():
    # sigmoid(log 4) = .8 (bin 8), sigmoid(-log 4) = .2 (bin 2). Bin 8: 1 of 2 correct, |.5 - .8| = .3;
    # bin 2: 1 of 4 correct, |.25 - .2| = .05. ECE = 2/6 * .3 + 4/6 * .05 = .4/3.
    scores = math.log(4) * np.array([1, 1, -1, -1, -1, -1])
    correct = np.array([1, 0, 1, 0, 0, 0], bool)
    assert calibration_error(scores, correct)(ONCE)[0] == pytest.approx(0.4 / 3)


def test_calibration_error_bears_extreme_scores():
    scores, correct = np.array([800.0, -800.0]), np.array([True, False])
    assert calibration_error(scores, correct)(np.ones((1, 2)))[0] == pytest.approx(0, abs=1e-12)


def test_threshold_by_hand():
    # Above 1: TPR 1, FPR 1/2, J .5. Above 2: TPR 1, FPR 0, J 1. Above 4: TPR 1/2, FPR 0. The midpoint of 2 and 4 is 3.
    assert choose_threshold([1, 2, 4, 5], [False, False, True, True]) == 3


def test_of_equally_good_thresholds_the_lowest_is_taken():
    # J is 1/2 above 1 (TPR 1, FPR 1/2) and above 3 (TPR 1/2, FPR 0).
    assert choose_threshold([1, 2, 3, 4], [False, True, False, True]) == 1.5


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.booleans()), min_size=2, max_size=20))
def test_no_other_threshold_has_a_higher_youden_j(rows):
    scores, correct = (np.array(column) for column in zip(*rows))
    if correct.all() or not correct.any() or len(set(scores)) < 2:
        with pytest.raises(ValueError, match="A threshold needs correct and incorrect"):
            choose_threshold(scores, correct)
        return

    def quality(threshold):
        accepted = scores > threshold
        return accepted[correct].mean() - accepted[~correct].mean()

    # Accepting everything (J = 0) is no threshold between scores.
    cuts = np.unique(scores)[:-1]
    assert quality(choose_threshold(scores, correct)) == pytest.approx(max(map(quality, cuts)))


def test_quality_figures_by_hand():
    rows = as_rows(
        ("a", 2.0, True),
        ("a", 1.0, False),  # accepted although incorrect
        ("b", 1.0, True),
        ("b", -1.0, False),
        ("c", 0.0, True),  # at the threshold: not accepted
        ("c", -2.0, False),
    )
    figures = quality_figures(rows, threshold=0.0, **DRAWS)
    values = {name: figure.value for name, figure in figures.items()}
    assert values["pair_accuracy"] == 1  # within each problem the correct one is ahead
    assert values["auc"] == pytest.approx((3 + 2.5 + 2) / 9)
    assert values["accuracy"] == pytest.approx(4 / 6)
    assert (values["tpr"], values["fpr"]) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert values["youden_j"] == pytest.approx(1 / 3)
    assert [figures[name].n for name in ("pair_accuracy", "auc", "accuracy", "tpr", "fpr")] == [3, 6, 6, 3, 3]


def test_auc_interval_of_one_class_is_empty_and_not_nan():
    figures = quality_figures(as_rows(("a", 1.0, True), ("b", 2.0, True)), threshold=0.0, **DRAWS)
    assert figures["auc"].value is None
    assert figures["fpr"].n == 0
