"""Figures of a step, counted by hand."""

import pytest
import torch

from pvg_hf.trainers.generative.metrics import ScoreSignals, score_metrics

NAN = float("nan")


def signals(**columns) -> ScoreSignals:
    number = len(columns["predicted"])
    default = {
        "has_form": [1] * number,
        "is_cut": [0] * number,
        "is_judgment": [0] * number,
        "quality": [1.0] * number,
        "was_asked": [0] * number,
        "is_unreadable": [0] * number,
    }
    return ScoreSignals(**{name: torch.tensor(values).float() for name, values in {**default, **columns}.items()})


def test_shares_of_scores_by_hand():
    metrics = score_metrics(
        signals(
            predicted=[0.0, 1.0, 0.5, NAN, 1.0, 1.0, 0.0],
            reference=[0.0, 0.0, 1.0, 0.0, 1.0, NAN, 0.5],
            has_form=[1, 1, 1, 0, 1, 1, 0],
            is_cut=[0, 0, 0, 1, 0, 0, 0],
            was_asked=[1, 1, 0, 0, 0, 0, 0],
            quality=[0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            is_unreadable=[0, 1, 0, 0, 0, 0, 0],
        )
    )
    assert metrics == pytest.approx(
        {
            "format_rate": 5 / 7,
            "cut": 1 / 7,
            "unscorable": 1 / 7,
            "score_accuracy": 2 / 6,
            "score_error": (0 + 1 + 0.5 + 0 + 0.5) / 5,
            "false_positive_rate": 1 / 3,
            "meta/quality": 0.25,
            "meta/unreadable": 0.5,
            **{f"confusion/{true}_as_{score}": 0 for true in ("0", "0.5", "1") for score in ("0", "0.5", "1", "none")},
            "confusion/0_as_0": 1 / 6,
            "confusion/0_as_1": 1 / 6,
            "confusion/0_as_none": 1 / 6,
            "confusion/1_as_0.5": 1 / 6,
            "confusion/1_as_1": 1 / 6,
            "confusion/0.5_as_0": 1 / 6,
        }
    )


def test_judgments_are_counted_apart():
    metrics = score_metrics(signals(predicted=[1.0, 0.0], reference=[1.0, 1.0], is_judgment=[0, 1]))
    assert (metrics["score_accuracy"], metrics["judge/score_accuracy"]) == (1.0, 0.0)


def test_metrics_without_data_have_no_key():
    metrics = score_metrics(signals(predicted=[1.0], reference=[NAN]))
    assert metrics == {"format_rate": 1.0, "cut": 0.0, "unscorable": 1.0}
