"""Token-level rewards, advantages, whitening, the value loss and the estimate of a KL divergence, by hand."""

import math

import pytest
import torch

from pvg_hf.trainers.ppo.advantages import (
    clipped_value_loss,
    explained_variance,
    generalized_advantages,
    kl_estimate,
    masked_mean,
    token_rewards,
    whiten,
)


def test_four_tokens_by_hand():
    rewards, values = torch.tensor([[0.0, 0.0, 0.0, 1.0]]), torch.tensor([[0.5, 0.4, 0.6, 0.8]])
    found = generalized_advantages(rewards, values, torch.ones(1, 4, dtype=torch.bool), gamma=0.9, gae_lambda=0.8)
    # errors .9 x .4 - .5 = -.14, .9 x .6 - .4 = .14, .9 x .8 - .6 = .12, 1 - .8 = .2; each later one counts .72 times
    by_hand = [-0.14 + 0.72 * 0.33008, 0.14 + 0.72 * 0.264, 0.12 + 0.72 * 0.2, 0.2]
    assert found[0].tolist() == pytest.approx(by_hand, abs=1e-6)


def _slow_row(rewards: list[float], values: list[float], gamma: float, gae_lambda: float) -> list[float]:
    """The definition as nested sums, for a solution without gaps."""
    following = [*values, 0.0][1:]
    errors = [r + gamma * after - v for r, v, after in zip(rewards, values, following, strict=False)]
    decays = [(gamma * gae_lambda) ** distance for distance in range(len(errors))]
    return [sum(d * e for d, e in zip(decays, errors[t:], strict=False)) for t in range(len(errors))]


@pytest.mark.parametrize(("gamma", "gae_lambda"), [(1.0, 0.95), (0.9, 0.7), (0.97, 1.0), (1.0, 0.0), (0.0, 0.9)])
def test_random_masks_against_a_slow_reference(gamma, gae_lambda):
    """Masks have gaps, some rows no token, and masked values are NaN."""
    generator = torch.Generator().manual_seed(0)
    shape = (40, 9)
    mask = torch.rand(shape, generator=generator) < torch.rand(40, 1, generator=generator)
    rewards, values = (torch.randn(shape, generator=generator).masked_fill(~mask, torch.nan) for _ in range(2))
    found = generalized_advantages(rewards, values, mask, gamma=gamma, gae_lambda=gae_lambda)
    assert mask.any(dim=1).sum() < 40
    assert (found[~mask] == 0).all()
    for row, is_token in enumerate(mask):
        slow = _slow_row(rewards[row, is_token].tolist(), values[row, is_token].tolist(), gamma, gae_lambda)
        assert found[row, is_token].tolist() == pytest.approx(slow, abs=1e-5)


def test_without_discount_and_critic_an_advantage_is_the_remaining_reward():
    rewards = torch.tensor([[1.0, -2.0, 3.0, 0.5], [4.0, 1.0, 9.0, 9.0]])
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]]).bool()
    found = generalized_advantages(rewards, torch.zeros(2, 4), mask, gamma=1.0, gae_lambda=1.0)
    assert found.tolist() == [[2.5, 1.5, 3.5, 0.5], [5.0, 1.0, 0.0, 0.0]]


def test_lambda_one_makes_the_targets_independent_of_the_critic():
    generator = torch.Generator().manual_seed(1)
    rewards, values = (torch.randn(5, 6, generator=generator) for _ in range(2))
    mask = torch.arange(6) < torch.tensor([[6], [4], [1], [5], [2]])
    found = generalized_advantages(rewards, values, mask, gamma=0.9, gae_lambda=1.0) + values
    expected = generalized_advantages(rewards, torch.zeros(5, 6), mask, gamma=0.9, gae_lambda=1.0)
    torch.testing.assert_close(found[mask], expected[mask])


def test_the_reward_is_on_the_last_token_and_the_divergence_on_every_token():
    kl = torch.tensor([[0.5, -1.0, 2.0], [0.1, torch.nan, torch.inf], [1.0, 1.0, 1.0]])
    mask = torch.tensor([[1, 1, 1], [1, 0, 0], [0, 0, 0]]).bool()
    found = token_rewards(torch.tensor([10.0, 20.0, torch.nan]), kl, mask, kl_coef=0.2)
    assert found[0].tolist() == pytest.approx([-0.1, 0.2, 10 - 0.4])
    assert found[1].tolist() == pytest.approx([20 - 0.02, 0.0, 0.0])
    assert found[2].tolist() == [0.0, 0.0, 0.0]  # a solution of which nothing counts


def test_means_exclude_masked_values():
    values, mask = torch.tensor([[1.0, 2.0], [6.0, torch.nan]]), torch.tensor([[True, True], [True, False]])
    assert masked_mean(values, mask).item() == 3.0
    assert masked_mean(values, torch.zeros(2, 2, dtype=torch.bool)).item() == 0.0


def test_whitening_by_hand():
    values, mask = torch.tensor([[1.0, 3.0], [5.0, 99.0]]), torch.tensor([[True, True], [True, False]])
    deviation = (8 / 3) ** 0.5  # of 1, 3, 5 from 3
    assert whiten(values, mask).flatten().tolist() == pytest.approx([-2 / deviation, 0.0, 2 / deviation, 0.0])
    assert whiten(torch.full((2, 2), 7.0), mask).tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1.0, 2.0, 3.0], 1.0), ([5.0, 5.0, 5.0], 0.0), ([11.0, 12.0, 13.0], 1.0), ([3.0, 2.0, 1.0], -3.0)],
)
def test_explained_variance_by_hand(values, expected):
    """Returns 1, 2, 3; what is left of (3, 2, 1) is (-2, 0, 2), four times their variance."""
    mask = torch.tensor([[True, True, True, False]])
    returns = torch.tensor([[1.0, 2.0, 3.0, torch.nan]])
    found = explained_variance(torch.tensor([[*values, 0.0]]), returns, mask)
    assert found.item() == pytest.approx(expected)


def test_equal_returns_have_no_variance_to_explain():
    mask = torch.ones(1, 3, dtype=torch.bool)
    assert explained_variance(torch.tensor([[1.0, 2.0, 3.0]]), torch.ones(1, 3), mask).isnan()


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
def test_value_loss_of_one_token_by_hand(value, old, target, clip_range, expected):
    tensors = [torch.tensor([[number]]) for number in (value, old, target)]
    assert clipped_value_loss(*tensors, clip_range=clip_range).item() == pytest.approx(expected)


def test_a_clipped_value_has_no_gradient():
    value = torch.tensor([[1.0]], requires_grad=True)
    clipped_value_loss(value, torch.tensor([[0.5]]), torch.tensor([[2.0]]), clip_range=0.2).sum().backward()
    assert value.grad.item() == 0.0


def test_divergence_estimates_by_hand():
    """Over p = (.5, .5) and q = (.25, .75), its mean is the divergence itself."""
    p, q = torch.tensor([0.5, 0.5]), torch.tensor([0.25, 0.75])
    estimates = kl_estimate(q.log() - p.log())
    assert (estimates > 0).all()
    assert (p * estimates).sum().item() == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3))
    assert kl_estimate(torch.zeros(1)).item() == 0.0
