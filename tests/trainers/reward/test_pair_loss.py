import math

import pytest
import torch

from pvg_hf.trainers.reward.config import NoisyRewardConfig
from pvg_hf.trainers.reward.loss import pair_loss

CHOSEN, REJECTED = torch.tensor([1.0, 0.5, 2.0]), torch.tensor([0.0, 1.5, -1.0])  # differences 1, -1, 3
LABELS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])  # as it is, reversed, tied
CENTRING = 0.1 * (1 + 0.25 + 4 + 0 + 2.25 + 1) / 6


def _config(**settings) -> NoisyRewardConfig:
    return NoisyRewardConfig("out", report_to="none", **{"center": 0.1, **settings})


def _sp(value: float) -> float:
    return math.log1p(math.exp(value))


def test_bradley_terry_without_labels():
    loss = pair_loss(CHOSEN, REJECTED, _config())
    assert loss.item() == pytest.approx((_sp(-1) + _sp(1) + _sp(-3)) / 3 + CENTRING)


def test_bradley_terry_turns_reversed_pairs_round_and_leaves_ties_out():
    loss = pair_loss(CHOSEN, REJECTED, _config(), labels=LABELS)
    assert loss.item() == pytest.approx((_sp(-1) + _sp(-1)) / 2 + CENTRING)


def test_bradley_terry_takes_the_assumed_flip_rate():
    args = _config(correction="smoothing", rho0=0.2, rho1=0.2)  # e = .04 / .68 = 1 / 17
    loss = pair_loss(CHOSEN, REJECTED, args, correction="smoothing")
    smoothed = sum(16 / 17 * _sp(-d) + 1 / 17 * _sp(d) for d in (1, -1, 3)) / 3
    assert loss.item() == pytest.approx(smoothed + CENTRING)


def test_margin_moves_the_pair_and_not_the_centring():
    loss = pair_loss(CHOSEN, REJECTED, _config(), margin=torch.tensor([0.5, 0.0, 1.0]))
    assert loss.item() == pytest.approx((_sp(-0.5) + _sp(1) + _sp(-2)) / 3 + CENTRING)


def test_cross_entropy_takes_the_noisy_labels():
    args = _config(loss="cross_entropy")
    clean = (_sp(-1) + _sp(-0.5) + _sp(-2) + _sp(0) + _sp(1.5) + _sp(-1)) / 6
    assert pair_loss(CHOSEN, REJECTED, args).item() == pytest.approx(clean + CENTRING)
    noisy = (_sp(-1) + _sp(0.5) + _sp(-2) + _sp(0) + _sp(-1.5) + _sp(1)) / 6
    assert pair_loss(CHOSEN, REJECTED, args, labels=LABELS).item() == pytest.approx(noisy + CENTRING)


def test_cross_entropy_takes_the_assumed_rates():
    args = _config(loss="cross_entropy", correction="backward", rho0=0.1, rho1=0.3)
    loss = pair_loss(torch.tensor([1.0]), torch.tensor([0.5]), args, correction="backward")
    label_1 = (0.9 * _sp(-1) - 0.3 * _sp(1)) / 0.6
    label_0 = (0.7 * _sp(0.5) - 0.1 * _sp(-0.5)) / 0.6
    assert loss.item() == pytest.approx((label_1 + label_0) / 2 + 0.1 * (1 + 0.25) / 2)
