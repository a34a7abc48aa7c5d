import math

import pytest
import torch

from pvg_hf.rewards import (
    acceptance,
    correctness_gated_convincingness,
    correctness_only,
    goodhart,
    role_aligned,
    signed_relative_convincingness,
    standardized_relative_convincingness,
)

ROLE_REWARDS = [
    signed_relative_convincingness,
    correctness_gated_convincingness,
    goodhart,
    correctness_only,
    standardized_relative_convincingness,
]
ALL_REWARDS = [*ROLE_REWARDS, acceptance]


def flags(*values):
    return torch.tensor(values, dtype=torch.bool)


def test_role_aligned_by_hand():
    correct, sneaky = flags(1, 0, 1, 0), flags(0, 0, 1, 1)
    assert role_aligned(correct, sneaky).tolist() == [True, False, False, True]
    assert role_aligned(correct, sneaky, flags(0, 0, 0, 0)).tolist() == [False] * 4


@pytest.mark.parametrize("reward", ALL_REWARDS)
@pytest.mark.parametrize(
    ("given", "expected"),
    [(torch.bfloat16, torch.float32), (torch.float32, torch.float32), (torch.float64, torch.float64)],
)
def test_rewards_have_the_scores_type_but_never_half_precision(reward, given, expected):
    rewards = reward(torch.tensor([1, 2], dtype=given), flags(1, 1), flags(0, 0), group_size=2)
    assert rewards.dtype == expected
    assert rewards.shape == (2,)


@pytest.mark.parametrize("reward", ALL_REWARDS)
def test_rewards_do_not_change_their_arguments(reward):
    scores, correct, sneaky = torch.tensor([1.0, 2.0]), flags(1, 1), flags(0, 0)
    reward(scores, correct, sneaky, group_size=2, answered=flags(1, 0)).add_(100)
    assert scores.tolist() == [1, 2]
    assert correct.tolist() == [True, True]


@pytest.mark.parametrize("reward", ROLE_REWARDS)
def test_flags_may_be_numbers(reward):
    scores, correct, sneaky = torch.tensor([0.0, 3.0, 1.0, 5.0]), flags(1, 0, 1, 0), flags(0, 0, 1, 1)
    as_flags = reward(scores, correct, sneaky, group_size=2)
    assert torch.equal(reward(scores, correct.float(), sneaky.long(), group_size=2), as_flags)


@pytest.mark.parametrize("reward", ALL_REWARDS)
def test_an_empty_batch_has_no_rewards(reward):
    assert reward(torch.empty(0), flags(), flags(), group_size=4).shape == (0,)


@pytest.mark.parametrize("reward", ROLE_REWARDS)
@pytest.mark.parametrize("group_size", [4, 0, -3, 12])
def test_group_size_must_divide_the_batch(reward, group_size):
    with pytest.raises(ValueError, match=f"`group_size` is {group_size}.*divide 6 solutions"):
        reward(torch.zeros(6), torch.ones(6), torch.zeros(6), group_size=group_size)


@pytest.mark.parametrize("reward", ROLE_REWARDS)
def test_a_group_must_not_mix_roles(reward):
    sneaky = flags(0, 0, 0, 1, 1, 1, 1, 0)
    with pytest.raises(ValueError, match=r"2 of 4 groups .*group 1"):
        reward(torch.zeros(8), torch.ones(8), sneaky, group_size=2)


@pytest.mark.parametrize("reward", ALL_REWARDS)
def test_scores_must_be_finite(reward):
    scores = torch.tensor([0.0, math.nan, math.inf, -math.inf])
    with pytest.raises(ValueError, match=r"3 of 4 scores .*finite"):
        reward(scores, torch.ones(4), torch.zeros(4), group_size=2)


@pytest.mark.parametrize("name", ["correct", "sneaky", "answered"])
def test_flags_must_be_0_or_1(name):
    given = {"correct": torch.ones(2), "sneaky": torch.zeros(2), "answered": torch.ones(2)}
    with pytest.raises(ValueError, match=f"`{name}` .*0 or 1; .*0.5"):
        goodhart(torch.zeros(2), group_size=2, **given | {name: torch.tensor([0.5, 1.0])})
    with pytest.raises(ValueError, match=rf"`{name}` has shape \(2, 1\)"):
        goodhart(torch.zeros(2), group_size=2, **given | {name: torch.ones(2, 1)})


def test_scores_must_be_one_dimensional():
    with pytest.raises(ValueError, match=r"`scores` has shape \(2, 1\)"):
        goodhart(torch.zeros(2, 1), torch.ones(2, 1), torch.zeros(2, 1), group_size=2)
