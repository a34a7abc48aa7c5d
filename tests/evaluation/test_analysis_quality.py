"""Figures of a generative verifier."""

import json
from math import nan

import pandas as pd
import pytest

from pvg_hf.evaluation.analysis_quality import evaluation_figures, label_figures


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
