"""The value loss and the estimate of a KL divergence, by hand."""

import math

import pytest
import torch

from pvg_hf.trainers.ppo.advantages import clipped_value_loss, kl_estimate


@pytest.mark.parametrize(
    ("value", "old", "target", "clip_range", "expected"),
    [
        (1.0, 0.9, 2.0, 0.2, 0.5),  # within the range: half of 1
        (1.0, 0.5, 2.0, 0.2, 1.3**2 / 2),  # held at .7, which is further away
        (1.0, 0.5, 0.0, 0.2, 0.5),  # held at .7, which is closer: the value itself counts
        (0.0, 0.5, -1.0, 0.2, 1.3**2 / 2),  # the other side, held at .3
        (1.0, 0.5, 2.0, None, 0.5),
    ],
)
def test_value_loss_of_one_token(value, old, target, clip_range, expected):
    tensors = [torch.tensor([[number]]) for number in (value, old, target)]
    assert clipped_value_loss(*tensors, clip_range=clip_range).item() == pytest.approx(expected)


def test_a_value_that_is_held_is_not_pulled_further():
    value = torch.tensor([[1.0]], requires_grad=True)
    clipped_value_loss(value, torch.tensor([[0.5]]), torch.tensor([[2.0]]), clip_range=0.2).sum().backward()
    assert value.grad.item() == 0.0


def test_estimate_of_a_divergence():
    """Over p = (.5, .5) and q = (.25, .75), its mean is the divergence itself."""
    p, q = torch.tensor([0.5, 0.5]), torch.tensor([0.25, 0.75])
    estimates = kl_estimate(q.log() - p.log())
    assert (estimates > 0).all()
    assert (p * estimates).sum().item() == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3))
    assert kl_estimate(torch.zeros(1)).item() == 0.0
