"""Losses by hand, in one- and two-logit form and at extreme logits."""

import math

import pytest
import torch
import torch.nn.functional as F

from pvg_hf.experimental.messages.losses import acceptance_loss, acceptance_scores, message_entropy
from pvg_hf.experimental.messages.player_base import MessagePlayerConfig
from pvg_hf.losses import label_losses


def test_scores_of_both_heads():
    assert acceptance_scores(torch.tensor([[2.0], [-1.0]])).tolist() == [2.0, -1.0]
    assert acceptance_scores(torch.tensor([[1.0, 3.0], [4.0, 3.5]])).tolist() == [2.0, -0.5]


@pytest.mark.parametrize("shape", [(3,), (3, 3)], ids=["one-axis", "three-logits"])
def test_other_shapes_are_errors(shape):
    with pytest.raises(ValueError, match=rf"shape \({shape[0]}, ?"):
        acceptance_scores(torch.zeros(shape))


def test_losses_by_hand():
    scores = torch.tensor([0.0, math.log(3)])  # P(accept) of 1/2 and 3/4
    assert acceptance_loss(scores).item() == pytest.approx((math.log(2) + math.log(4 / 3)) / 2)
    losses = label_losses(scores, torch.tensor([1.0, 0.0]), 0.0, 0.0, "none")
    assert losses.tolist() == pytest.approx([math.log(2), math.log(4)])


def test_two_logits_give_the_loss_of_log_softmax():
    logits, labels = torch.tensor([[0.3, -1.2], [2.0, 5.0]]), torch.tensor([0, 1])
    losses = label_losses(acceptance_scores(logits), labels.float(), 0.0, 0.0, "none")
    assert losses.tolist() == pytest.approx(F.cross_entropy(logits, labels, reduction="none").tolist())


@pytest.mark.parametrize(
    "logits", [[[1e4]], [[-1e4]], [[1e4, -1e4]], [[-1e4, 1e4]]], ids=["yes", "no", "no-of-two", "yes-of-two"]
)
def test_losses_are_finite_at_extreme_logits(logits):
    logits = torch.tensor(logits, requires_grad=True)
    scores = acceptance_scores(logits)
    losses = acceptance_loss(scores) + label_losses(scores, torch.ones(1), 0.0, 0.0, "none").sum()
    losses.backward()
    assert torch.isfinite(losses)
    assert torch.isfinite(logits.grad).all()
    # Both are softplus(-s): 0 for a certain yes, and the size of the score for a certain no.
    assert losses.item() == pytest.approx(2 * max(0.0, -scores.item()))


def test_half_precision_becomes_single():
    assert acceptance_scores(torch.zeros(2, 1, dtype=torch.bfloat16)).dtype == torch.float32


def test_entropy_of_messages():
    continuous, discrete = (
        MessagePlayerConfig(message_width=2),
        MessagePlayerConfig(message_width=1, message_form="discrete"),
    )
    # The first entry is 1 for one problem of two: log 2. The second is always 1: 0.
    assert message_entropy(torch.tensor([[1.0, 1.0], [-1.0, 1.0]]), continuous).item() == pytest.approx(
        math.log(2) / 2
    )
    assert message_entropy(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), discrete).item() == pytest.approx(math.log(2))
    assert message_entropy(torch.tensor([[0.0, 1.0], [0.0, 1.0]]), discrete).item() == 0
