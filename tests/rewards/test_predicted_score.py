"""Rewards of a predicted score, worked by hand."""

import logging

import pytest
import torch

from pvg_hf.rewards import EvaluationReward, score_agreement, self_evaluating_reward

NAN = float("nan")


def close(found, expected):
    torch.testing.assert_close(found, torch.tensor(expected), equal_nan=True)


def test_score_agreement_by_hand():
    predicted = torch.tensor([0.0, 0.5, 1.0, 1.0, NAN, 1.0, NAN])
    reference = torch.tensor([0.0, 0.0, 0.0, 0.5, 1.0, NAN, NAN])
    close(score_agreement(predicted, reference), [1.0, 0.5, 0.0, 0.5, 0.0, NAN, NAN])


@pytest.mark.parametrize(
    ("combination", "quality", "expected"),
    [
        ("additive", None, [1.0, 0.125 + 0.875 * 0.5, 0.875, 0.125, 0.0, NAN]),
        ("additive", [0.5, 1.0, 0.0, 1.0, 1.0, 1.0], [0.125 + 0.4375, 0.5625, 0.0, 0.125, 0.0, NAN]),
        ("multiplicative", None, [1.0, 0.5, 0.0, 0.0, 0.0, NAN]),
        ("multiplicative", [0.5, 1.0, 0.0, 1.0, 1.0, 1.0], [0.5, 0.5, 0.0, 0.0, 0.0, NAN]),
    ],
)
def test_each_combination_by_hand(combination, quality, expected):
    has_form = torch.tensor([1.0, 1.0, 0.0, 1.0, 0.0, 1.0])
    agreement = torch.tensor([1.0, 0.5, 1.0, 0.0, 0.0, NAN])
    reward = EvaluationReward(combination)
    close(reward(has_form, agreement, None if quality is None else torch.tensor(quality)), expected)


def test_weights_are_renormalised_with_a_warning(caplog):
    with caplog.at_level(logging.WARNING):
        reward = EvaluationReward(format_weight=1.0, score_weight=3.0)
    assert "The weights 1.0 and 3.0 do not sum to 1; using 0.25 and 0.75." in caplog.text
    close(reward(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])), [0.25, 0.75])
    caplog.clear()
    EvaluationReward(format_weight=0.5, score_weight=0.5)
    assert caplog.text == ""


@pytest.mark.parametrize("weights", [(-0.5, 1.5), (0.0, 0.0), (NAN, 1.0), (float("inf"), 1.0)])
def test_invalid_weights_are_errors(weights):
    with pytest.raises(ValueError, match="`format_weight` and `score_weight`"):
        EvaluationReward(format_weight=weights[0], score_weight=weights[1])


def test_an_unknown_combination_is_an_error():
    with pytest.raises(ValueError, match=r"`combination` is `additiv`.*`additive`"):
        EvaluationReward("additiv")


def test_self_evaluating_reward_by_hand():
    has_form, agreement = torch.tensor([1.0, 1.0, 0.0]), torch.tensor([1.0, 0.5, 1.0])
    proof_score, quality = torch.tensor([0.5, 1.0, 1.0]), torch.tensor([1.0, 0.5, 1.0])
    # .76 * .5 + .24; .76 + .24 * .5 * .5; no form
    close(self_evaluating_reward(has_form, proof_score, agreement, quality), [0.62, 0.82, 0.0])
    close(self_evaluating_reward(has_form, proof_score, agreement), [0.62, 0.88, 0.0])
