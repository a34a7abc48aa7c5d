"""Thresholds and probabilities of a verifier from solutions with known correctness."""

import numpy as np
import pandas as pd
import pytest

from pvg_hf.core.score_calibration import GRID, ScoreCalibration, quantiles_of
from pvg_hf.evaluation.verifier_quality import calibrate, threshold_table


@pytest.fixture
def rows():
    """Two hundred problems: correct solutions score 0 to 199, incorrect ones 100 less."""
    problems = [f"p{number}" for number in range(200)]
    correct = pd.DataFrame({"problem_id": problems, "score": np.arange(200.0), "correct": True})
    return pd.concat([correct, correct.assign(score=correct["score"] - 100, correct=False)], ignore_index=True)


@pytest.mark.parametrize("completeness", [0.5, 0.9, 0.95])
def test_a_threshold_accepts_its_share_of_the_correct_solutions(rows, completeness):
    calibration = calibrate(rows, rows["correct"].to_numpy())
    threshold = calibration.threshold_at(completeness)
    accepted = rows["score"] > threshold
    # The grid has a point for each half per cent.
    assert accepted[rows["correct"]].mean() == pytest.approx(completeness, abs=0.006)


def test_probabilities_rise_with_the_score_and_never_overflow(rows):
    calibration = calibrate(rows, rows["correct"].to_numpy())
    low, middle, high = (calibration.probability_of(score) for score in (-1e9, 50.0, 1e9))
    assert 0 < low < middle < high <= 1
    assert middle == pytest.approx(0.5, abs=0.02)  # halfway between the means of both classes


def test_a_calibration_is_kept_beside_the_weights(rows, tmp_path):
    calibration = calibrate(rows, rows["correct"].to_numpy())
    calibration.save(tmp_path)
    assert ScoreCalibration.load(tmp_path) == calibration
    assert (calibration.num_solutions, calibration.num_problems) == (400, 200)
    (tmp_path / "calibration.json").write_text('{"threshold": 1.0, "probability": {"slope": 1, "intercept": 0}}')
    assert ScoreCalibration.load(tmp_path) is None  # of an older run
    assert ScoreCalibration.load(tmp_path / "none") is None


@pytest.mark.parametrize("completeness", [0, 1, -0.1, 95])
def test_a_share_outside_its_range_is_refused(rows, completeness):
    with pytest.raises(ValueError, match=f"completeness.*{completeness}"):
        calibrate(rows, rows["correct"].to_numpy()).threshold_at(completeness)


def test_quantiles_are_those_of_the_grid():
    assert quantiles_of(np.array([3.0, 1.0])) == pytest.approx(1 + 2 * GRID)


def test_a_table_of_thresholds_measures_each_half_at_the_threshold_of_the_other(rows):
    table = threshold_table(rows, [0.5, 0.95]).set_index("wanted")
    assert table.loc[0.95, "threshold"] == pytest.approx(0.05 * 199, abs=1e-3)
    shares = {wanted: float(table.loc[wanted, "correct_accepted"].split()[0]) for wanted in (0.5, 0.95)}
    # Binomial: the thresholds of halves of 100 differ by at most about 4 standard errors, .2 at .5.
    assert shares[0.5] == pytest.approx(0.5, abs=0.2)
    assert shares[0.95] == pytest.approx(0.95, abs=0.09)
