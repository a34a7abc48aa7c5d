"""Thresholds and probabilities of a verifier from solutions with known correctness."""

import json

import numpy as np
import pandas as pd
import pytest

from pvg_hf.core.score_calibration import GRID, ScoreCalibration, probability_at, quantiles_of
from pvg_hf.evaluation.verifier_quality import calibrate, threshold_table


@pytest.fixture
def rows():
    """Two hundred problems: correct solutions score 0 to 199, incorrect ones 100 less."""
    problems = [f"p{number}" for number in range(200)]
    texts = [f"s{number}" for number in range(200)]
    correct = pd.DataFrame({"problem_id": problems, "solution": texts, "score": np.arange(200.0), "correct": True})
    return pd.concat([correct, correct.assign(score=correct["score"] - 100, correct=False)], ignore_index=True)


@pytest.mark.parametrize("completeness", [0.5, 0.9, 0.95])
def test_a_threshold_accepts_its_share_of_the_correct_solutions(rows, completeness):
    calibration = calibrate(rows, rows["correct"].to_numpy())
    accepted = calibration.acceptance(completeness).accepts(rows["score"])
    assert accepted[rows["correct"]].mean() == completeness  # of 200 solutions, a whole number


@pytest.mark.parametrize("num_levels", [1, 2, 5])
@pytest.mark.parametrize("completeness", [0.5, 0.9, 0.95])
def test_where_scores_tie_at_least_the_share_is_accepted(rows, num_levels, completeness):
    rows = rows.assign(score=(rows["score"] + 100) // (301 / num_levels) + 0.01 * rows["correct"])
    accepted = calibrate(rows, rows["correct"].to_numpy()).acceptance(completeness).accepts(rows["score"])
    assert accepted[rows["correct"]].mean() >= completeness
    table = threshold_table(rows, [completeness])
    assert float(table["correct_accepted"].iloc[0].split()[0]) >= completeness - 0.1  # halves of 100 differ


def test_probabilities_rise_with_the_score_and_never_overflow(rows):
    calibration = calibrate(rows, rows["correct"].to_numpy())
    low, middle, high = (calibration.probability_of(score) for score in (-1e9, 50.0, 1e9))
    assert 0 < low < middle < high <= 1
    assert middle == pytest.approx(0.5, abs=0.02)  # halfway between the means of both classes


def test_a_calibration_is_kept_beside_the_weights(rows, tmp_path):
    calibration = calibrate(rows, rows["correct"].to_numpy())
    calibration.save(tmp_path)
    assert ScoreCalibration.load(tmp_path) == calibration
    # For those who read the file without pvg_hf: of 0 to 199, 95 % are at least 10.
    assert json.loads((tmp_path / "calibration.json").read_text())["threshold"] == 10
    assert (calibration.num_solutions, calibration.num_problems) == (400, 200)
    (tmp_path / "calibration.json").write_text('{"threshold": 1.0, "probability": {"slope": 1, "intercept": 0}}')
    assert ScoreCalibration.load(tmp_path) is None  # of an older run
    with pytest.raises(ValueError, match=r"calibration\.json.*pvg calibrate"):
        ScoreCalibration.require(tmp_path)
    assert ScoreCalibration.load(tmp_path / "none") is None


def test_a_calibration_of_an_older_run_is_read(rows, tmp_path):
    """Its threshold had the highest Youden J, and its quantiles are interpolated."""
    scores = rows.loc[rows["correct"], "score"]
    old = {
        "threshold": 99.5,
        "probability": {"slope": 1.0, "intercept": 0.0},
        "correct_scores": np.quantile(scores, GRID).tolist(),
        "incorrect_scores": np.quantile(scores - 100, GRID).tolist(),
        "num_solutions": 400,
        "num_problems": 200,
        "pair_accuracy": None,
    }
    (tmp_path / "calibration.json").write_text(json.dumps(old))
    rule = ScoreCalibration.require(tmp_path).acceptance()
    assert rule.threshold == pytest.approx(0.05 * 199)  # as before
    assert rule.accepts(scores).sum() == 190


def test_quantiles_are_thresholds():
    # At a share of 0 to .495 both scores are accepted or the lower one in part; from .5 on the higher one alone.
    assert quantiles_of(np.array([3.0, 1.0])) == [1.0] * 100 + [3.0] * 101


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_scores_that_are_not_finite_are_refused(rows, score):
    rows.loc[3, "score"] = score
    with pytest.raises(ValueError, match=rf"solution 3 \('s3'\) is {score}"):
        calibrate(rows, rows["correct"].to_numpy())


@pytest.mark.parametrize("log_odds", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_has_no_probability(log_odds):
    with pytest.raises(ValueError, match=f"{log_odds}, which has no probability"):
        probability_at(log_odds)


def test_a_table_of_thresholds_measures_each_half_at_the_threshold_of_the_other(rows):
    table = threshold_table(rows, [0.5, 0.95]).set_index("wanted")
    assert table.loc[0.95, "threshold"] == 10
    shares = {wanted: float(table.loc[wanted, "correct_accepted"].split()[0]) for wanted in (0.5, 0.95)}
    # Binomial: the thresholds of halves of 100 differ by at most about 4 standard errors, .2 at .5.
    assert shares[0.5] == pytest.approx(0.5, abs=0.2)
    assert shares[0.95] == pytest.approx(0.95, abs=0.09)
