"""The modules of `evaluate`, loaded by path, against scikit-learn and the functions of the game."""

from pathlib import Path

import evaluate
import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

import pvg_hf
from pvg_hf.evaluation.role_figures import scored_rows
from pvg_hf.run.read import load_run

PACKAGE = Path(pvg_hf.__file__).parent


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Loads a module by the path of its file, with all of `evaluate`'s own files in this test's folder."""
    monkeypatch.setattr(evaluate.config, "HF_EVALUATE_CACHE", tmp_path / "cache")
    monkeypatch.setattr(evaluate.config, "HF_METRICS_CACHE", tmp_path / "metrics")

    def load_module(name: str, folder: str = "metrics"):
        return evaluate.load(f"{PACKAGE}/{folder}/{name}.py", cache_dir=str(tmp_path / "metrics"))

    return load_module


@pytest.fixture(scope="module")
def scored() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    correct = rng.random(300) < 0.4
    return np.round(rng.normal(correct, 1.0), 1), correct  # rounded, so that scores tie


def test_convincingness_by_path_equals_scikit_learn(load, scored):
    scores, correct = scored
    found = load("convincingness").compute(predictions=scores, references=correct.astype(int), threshold=0.5)
    assert found["completeness"] == pytest.approx((scores[correct] >= 0.5).mean())
    assert found["soundness"] == pytest.approx((scores[~correct] < 0.5).mean())
    balanced = balanced_accuracy_score(correct, scores >= 0.5)
    assert found["youden_j"] == pytest.approx(2 * balanced - 1)
    assert found["g_mean"] == pytest.approx((found["completeness"] * found["soundness"]) ** 0.5)
    assert found["auc"] == pytest.approx(roc_auc_score(correct, scores))
    # scikit-learn standardises the partial area by McClish: (1 + (area - least) / (most - least)) / 2.
    least, most = 0.1**2 / 2, 0.1
    mcclish = roc_auc_score(correct, scores, max_fpr=0.1)
    assert found["partial_auc"] * 0.1 == pytest.approx((2 * mcclish - 1) * (most - least) + least)


def test_balanced_best_of_n_by_path(load):
    # Problem a: 3 beats both, 1 beats 0 only: .75. Problem b has no incorrect solution.
    values = {"predictions": [3.0, 1, 2, 0, 5], "references": [1, 1, 0, 0, 1], "problem_ids": ["a"] * 4 + ["b"]}
    module = load("balanced_best_of_n")
    found = module.compute(**values)
    assert (found["balanced_best_of_n"], found["num_eligible"]) == (0.75, 1)
    assert module.compute(**values, n=4)["balanced_best_of_n"] == 1.0
    assert module.compute(**values, n=6)["balanced_best_of_n"] is None


def test_the_modules_give_the_figures_of_a_played_round(load, run_template):
    data = load_run(run_template(1)).rounds[0]
    rows = scored_rows(data.solutions)
    correct = rows["correct"].astype(bool)
    convincingness, threshold = load("convincingness"), data.figure("threshold").value

    def compute(rows: pd.DataFrame) -> dict[str, float]:
        scores = {"predictions": rows["score"].tolist(), "references": rows["correct"].astype(int).tolist()}
        return convincingness.compute(**scores, threshold=threshold)

    of_all, of_game = compute(rows), compute(rows[(rows["role"] == "helpful") == correct])
    for name in ("auc", "partial_auc", "g_mean"):
        assert of_all[name] == pytest.approx(data.figure(f"test_{name}").value, abs=1e-12)
    for name in ("completeness", "soundness"):
        assert of_game[name] == pytest.approx(data.figure(name).value, abs=1e-12)
    helpful = rows[rows["role"] == "helpful"]
    found = load("balanced_best_of_n").compute(
        predictions=helpful["score"].tolist(),
        references=helpful["correct"].astype(int).tolist(),
        problem_ids=helpful["problem_id"].tolist(),
        n=4,
    )
    figure = data.figure("best_of_n/4")
    assert (found["balanced_best_of_n"], found["low"], found["num_eligible"]) == (figure.value, figure.low, figure.n)


def test_steps_to_exploit_by_path(load):
    module = load("steps_to_exploit", "experimental/attacks")
    curve = {"predictions": [0.0, float("nan"), 2.0, 2.0], "references": [0.5, 1.0, 0.0, 0.0]}
    # Weight 5 / 5: no smoothing, and the score of step 2 keeps its mean.
    assert module.compute(**curve, helpful_score=1.0, max_steps=5) == {"step": 3, "num_steps": 3, "is_found": True}
    assert module.compute(**curve, helpful_score=3.0, max_steps=5) == {"step": None, "num_steps": 4, "is_found": False}
    assert module.compute(**curve, rule="goodhart", window=2)["step"] == 4
