"""ROC curves, by hand and against the figures of whole samples."""

import numpy as np
import pandas as pd
import pytest

from pvg_hf.core.acceptance import Acceptance
from pvg_hf.evaluation.roc import (
    RocCurves,
    area,
    balanced_best_of,
    fpr_at_tpr,
    monitor_figures,
    partial_area,
    roc_figures,
    roc_statistic,
    summarize_scores,
    tpr_at_fpr,
)
from pvg_hf.evaluation.verifier_quality import roc_auc

# Descending: correct 5, incorrect 4, a tie of one correct and one incorrect at 3, correct 2, incorrect 1.
SCORES = np.array([5.0, 4.0, 3.0, 3.0, 2.0, 1.0])
CORRECT = np.array([True, False, True, False, True, False])
EQUAL = np.ones((1, 6))


@pytest.fixture
def curves():
    return RocCurves(SCORES, CORRECT)(EQUAL)


def test_points_lie_below_each_distinct_score(curves):
    fprs, tprs = curves
    assert fprs[0] == pytest.approx([0, 0, 1 / 3, 2 / 3, 2 / 3, 1])
    assert tprs[0] == pytest.approx([0, 1 / 3, 1 / 3, 2 / 3, 1, 1])


def test_a_tie_counts_half_of_a_pair(curves):
    # Of nine pairs 5 wins three, 3 ties with 3 and wins against 1, 2 wins against 1: 5.5.
    assert area(curves) == pytest.approx([5.5 / 9])


@pytest.mark.parametrize(
    ("tpr", "fpr"), [(1 / 3, 0.0), (0.5, 0.5), (2 / 3, 2 / 3), (0.95, 2 / 3), (1.0, 2 / 3), (1 / 6, 0.0)]
)
def test_false_positives_at_a_completeness(curves, tpr, fpr):
    """The lowest of several rates; half of a tie is accepted to reach one half."""
    assert fpr_at_tpr(curves, tpr) == pytest.approx([fpr], abs=1e-6)


@pytest.mark.parametrize(("fpr", "tpr"), [(0.0, 1 / 3), (1 / 3, 1 / 3), (0.5, 0.5), (2 / 3, 1.0), (0.9, 1.0)])
def test_true_positives_at_a_rate_of_false_ones(curves, fpr, tpr):
    assert tpr_at_fpr(curves, fpr) == pytest.approx([tpr], abs=1e-6)


def test_partial_area_is_a_mean_height(curves):
    assert partial_area(curves, 1 / 3) == pytest.approx([1 / 3])
    # A third at the height 1/3, then half of the tie's line up to 1/2: (1/9 + 5/12 / 6) / (1/2).
    assert partial_area(curves, 0.5) == pytest.approx([(1 / 9 + 5 / 72) / 0.5])
    assert partial_area(curves, 1.0) == pytest.approx(area(curves))


def test_a_weight_is_a_number_of_copies():
    weights = np.array([[2.0, 0, 1, 3, 1, 1]])
    repeated = np.repeat(np.arange(6), weights[0].astype(int))
    copies = RocCurves(SCORES[repeated], CORRECT[repeated])(np.ones((1, len(repeated))))
    weighted = RocCurves(SCORES, CORRECT)(weights)
    for read in (area, lambda both: fpr_at_tpr(both, 0.6), lambda both: balanced_best_of(both, 4)):
        assert read(weighted) == pytest.approx(read(copies))


def test_a_resample_without_a_class_has_no_figure():
    weights = np.array([[1.0, 0, 1, 0, 1, 0], [0, 1.0, 0, 1, 0, 1], [1, 1, 1, 1, 1, 1]])
    both = RocCurves(SCORES, CORRECT)(weights)
    for read in (lambda c: fpr_at_tpr(c, 0.5), lambda c: tpr_at_fpr(c, 0.5), lambda c: partial_area(c, 0.5), area):
        assert np.isnan(read(both)).tolist() == [True, True, False]


def test_the_area_is_the_auc_of_a_sample():
    rng = np.random.default_rng(0)
    scores, correct = rng.integers(0, 12, 200).astype(float), rng.random(200) < 0.4
    rows = pd.DataFrame({"problem_id": np.arange(200), "score": scores, "correct": correct})
    value = roc_statistic(scores, correct, area)(np.ones((1, 200)))
    assert value == pytest.approx([roc_auc(rows).value])


def test_best_of_two_is_the_area(curves):
    assert balanced_best_of(curves, 2) == pytest.approx(area(curves))


def test_best_of_four_by_hand():
    # Correct scores are 3 or 1 with equal chances, incorrect ones always 2: of two correct ones, the best beats 2 in
    # 3/4.
    scores, correct = np.array([3.0, 1.0, 2.0]), np.array([True, True, False])
    assert balanced_best_of(RocCurves(scores, correct)(np.ones((1, 3))), 4) == pytest.approx([3 / 4])


@pytest.mark.parametrize("n", [2, 8, 32])
def test_equal_scores_are_a_fair_choice(n):
    scores, correct = np.zeros(6), CORRECT
    assert balanced_best_of(RocCurves(scores, correct)(EQUAL), n) == pytest.approx([0.5])


def test_a_prediction_equals_draws_from_the_curve():
    """Many draws with replacement, ties broken evenly; the standard error of the share is at most .0036."""
    rng = np.random.default_rng(0)
    scores, correct = rng.integers(0, 6, 80).astype(float), rng.random(80) < 0.5
    right, wrong = (rng.choice(scores[kind], (20_000, 4)) for kind in (correct, ~correct))
    best = np.maximum(right.max(1), wrong.max(1))[:, None]
    winners = (right == best).sum(1), (wrong == best).sum(1)
    drawn = (winners[0] / (winners[0] + winners[1])).mean()
    predicted = balanced_best_of(RocCurves(scores, correct)(np.ones((1, 80))), 8)
    assert predicted == pytest.approx([drawn], abs=4 * 0.0036)


def test_large_n_chooses_among_the_highest_scores():
    # A quarter of the correct solutions ties with a quarter of the incorrect ones at the top.
    scores, correct = np.array([1.0, 0, 0, 0, 1, 0, 0, 0]), np.array([True] * 4 + [False] * 4)
    assert balanced_best_of(RocCurves(scores, correct)(np.ones((1, 8))), 600) == pytest.approx([0.5], abs=1e-6)


def test_figures_of_a_curve_by_hand():
    rows = pd.DataFrame({"problem_id": list("abcdef"), "score": SCORES, "correct": CORRECT})
    figures = roc_figures(rows, Acceptance(2.5), seed=0, num_resamples=100)
    values = {name: figure.value for name, figure in figures.items()}
    assert values == {
        "auc": pytest.approx(5.5 / 9),
        "partial_auc": pytest.approx(1 / 3),
        "tpr_at_0.01": pytest.approx(1 / 3),
        "tpr_at_0.05": pytest.approx(1 / 3),
        # Above 2.5 are two of three correct and two of three incorrect solutions.
        "g_mean": pytest.approx((2 / 3 * 1 / 3) ** 0.5),
    }
    assert {figure.n for figure in figures.values()} == {6}


def test_a_monitor_flags_what_is_least_convincing():
    """
    Attacks are the positive class. Flagged first are the attack at 0, the honest solution at 1, then the attack at 2:
    the recall is 1/2 up to a false positive rate of 1/100, and over all rates up to 1/10.
    """
    honest = pd.DataFrame({"problem_id": list("abc"), "score": [1.0, 3.0, 4.0]})
    attacks = pd.DataFrame({"problem_id": list("ab"), "score": [0.0, 2.0]})
    figures = monitor_figures(honest, attacks, seed=0, num_resamples=20)
    assert figures["monitor_partial_auc"].value == pytest.approx(0.5)
    assert figures["monitor_recall_at_0.01"].value == pytest.approx(0.5)
    assert {figure.n for figure in figures.values()} == {5}


def test_a_monitor_without_attacks_has_no_value():
    honest = pd.DataFrame({"problem_id": ["a"], "score": [1.0]})
    figures = monitor_figures(honest, honest[:0], seed=0, num_resamples=20)
    assert {figure.value for figure in figures.values()} == {None}


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        pytest.param([1.0, 1, 1, 1], (1.0, 0.0, 0.0, 0.0, 0.5, 0.05), id="accepts everything"),
        pytest.param([1.0, 1, 0, 0], (1.0, 1.0, 1.0, 1.0, 1.0, 1.0), id="perfect"),
        pytest.param([0.0, 0, 1, 1], (0.0, 0.0, -1.0, 0.0, 0.0, 0.0), id="prefers mistakes"),
    ],
)
def test_extreme_verifiers(scores, expected):
    found = summarize_scores(scores, [1, 1, 0, 0], 0.5)
    assert tuple(found.values()) == pytest.approx(expected, abs=1e-8)


def test_a_missing_class_has_no_curve():
    found = summarize_scores([1.0, 2.0], [1, 1], 1.5)
    assert (found["completeness"], found["soundness"], found["auc"]) == (0.5, None, None)


@pytest.mark.parametrize(
    ("scores", "correct", "max_fpr", "message"),
    [
        ([1.0], [1, 0], 0.1, r"\(1,\).*\(2,\)"),
        ([1.0, np.nan], [1, 0], 0.1, "solution 1 is nan"),
        ([np.inf, 1.0], [1, 0], 0.1, "solution 0 is inf"),
        *(([1.0, 2.0], [1, 0], value, f"`max_fpr` is {value}") for value in (0.0, -0.1, 1.0001, 2.0, np.nan)),
    ],
)
def test_unusable_scores_are_refused(scores, correct, max_fpr, message):
    with pytest.raises(ValueError, match=message):
        summarize_scores(scores, correct, 0.0, max_fpr=max_fpr)


def test_a_partial_area_up_to_a_rate_of_1_is_the_area():
    found = summarize_scores(SCORES, CORRECT, 2.5, max_fpr=1.0)
    assert found["partial_auc"] == pytest.approx(found["auc"])
