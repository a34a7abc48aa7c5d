import math

import pytest
import torch

from pvg_hf.rewards import signed_relative_convincingness, standardized_relative_convincingness

RELATIVE = [signed_relative_convincingness, standardized_relative_convincingness]

# Group 0 (mean 3): V' = -2, -1, 0, 3. Group 1 (mean 1): V' = -1, 1, 2, -2.
SCORES = torch.tensor([1.0, 2, 3, 6, 0, 2, 3, -1])


def flags(*values):
    return torch.tensor(values, dtype=torch.bool)


def helpful_then_sneaky():
    return flags(0, 0, 0, 0, 1, 1, 1, 1)


def test_src_by_hand():
    correct = flags(1, 0, 1, 1, 0, 0, 1, 1)
    rewards = signed_relative_convincingness(SCORES, correct, helpful_then_sneaky(), group_size=4)
    # Helpful: only the last is above the mean, and correct. Sneaky: 1 and 2 are above it, incorrect and correct.
    assert rewards.tolist() == pytest.approx([-1, -1, -1, 3, -1, 1, -2, -1])


def test_src_with_a_floor_and_a_scale_by_hand():
    """
    V' = -4, -2, 0, 6 and -2, 2, 4, -4. The first and last solutions have no answer: min(-.5, -4) for either.
    """
    correct = flags(1, 0, 1, 1, 0, 0, 1, 1)
    rewards = signed_relative_convincingness(
        SCORES,
        correct,
        helpful_then_sneaky(),
        group_size=4,
        answered=flags(0, 1, 1, 1, 1, 1, 1, 0),
        floor=-0.5,
        score_scale=2.0,
    )
    assert rewards.tolist() == pytest.approx([-4, -0.5, -0.5, 6, -0.5, 2, -4, -4])


@pytest.mark.parametrize("options", [{"floor": 0.5}, {"floor": math.nan}, {"score_scale": 0.0}, {"score_scale": -1.0}])
def test_src_options_out_of_range_are_refused(options):
    correct = flags(1, 0, 1, 1, 0, 0, 1, 1)
    with pytest.raises(ValueError, match=f"`{next(iter(options))}` is "):
        signed_relative_convincingness(SCORES, correct, helpful_then_sneaky(), group_size=4, **options)


def test_src_changes_sign_with_correctness_above_the_mean_only():
    correct = flags(0, 1, 0, 0, 1, 1, 0, 0)
    rewards = signed_relative_convincingness(SCORES, correct, helpful_then_sneaky(), group_size=4)
    assert rewards.tolist() == pytest.approx([-1, -1, -1, -3, -1, -1, 2, -1])


@pytest.mark.parametrize("is_sneaky", [False, True])
def test_src_without_an_answer_is_the_lower_of_minus_one_and_the_distance_to_the_mean(is_sneaky):
    # Mean 1, V' = -3, -.5, 0, .5, 3; whatever the role or the stated correctness. The last stays answered.
    scores = torch.tensor([-2.0, 0.5, 1, 1.5, 4])
    sneaky = torch.full((5,), is_sneaky)
    answered = torch.zeros(5, dtype=torch.bool)
    rewards = signed_relative_convincingness(scores, sneaky, sneaky, group_size=5, answered=answered)
    assert rewards.tolist() == pytest.approx([-3, -1, -1, -1, -3])


@pytest.mark.parametrize("reward", RELATIVE)
def test_unanswered_solutions_stay_in_the_mean(reward):
    # Without the unanswered 9 the mean would be 1 and the 2 above it.
    scores, correct = torch.tensor([0.0, 1, 2, 9]), flags(1, 1, 1, 0)
    rewards = reward(scores, correct, flags(0, 0, 0, 0), group_size=4, answered=flags(1, 1, 1, 0))
    assert (rewards < 0).all()


@pytest.mark.parametrize("reward", RELATIVE)
@pytest.mark.parametrize("group_size", [1, 3, 8, 11])
@pytest.mark.parametrize("score", [0.1, 25.3, -1234.567])
def test_a_rounded_mean_rewards_nobody_in_a_group_of_equal_scores(reward, group_size, score):
    correct = torch.ones(group_size * 2, dtype=torch.bool)
    rewards = reward(torch.full((group_size * 2,), score), correct, ~correct, group_size=group_size)
    floor = -1 if reward is signed_relative_convincingness else -2
    assert rewards.tolist() == [floor] * (group_size * 2)


@pytest.mark.parametrize("reward", RELATIVE)
def test_a_score_within_the_tolerance_counts_as_the_mean(reward):
    correct = flags(1, 1)
    near = torch.tensor([0, 1.9e-6], dtype=torch.float64)  # V' = .95e-6
    beyond = torch.tensor([0, 2.1e-6], dtype=torch.float64)  # V' = 1.05e-6
    assert (reward(near, correct, ~correct, group_size=2) < 0).all()
    assert reward(beyond, correct, ~correct, group_size=2)[1] > 0


def test_standardized_src_by_hand():
    correct = flags(1, 1, 1, 1, 0, 0, 1, 1)
    rewards = standardized_relative_convincingness(SCORES, correct, helpful_then_sneaky(), group_size=4)
    # Population variances: (4 + 1 + 0 + 9) / 4 = 3.5 and (1 + 1 + 4 + 4) / 4 = 2.5
    assert rewards.tolist() == pytest.approx([-2, -2, -2, 3 / math.sqrt(3.5), -2, 1 / math.sqrt(2.5), -2, -2])


def test_standardized_src_is_minus_two_out_of_role_and_without_an_answer():
    scores, sneaky = torch.tensor([0.0, 1, 2, 9]), flags(0, 0, 0, 0)
    correct, answered = flags(1, 1, 1, 0), flags(1, 1, 1, 1)
    rewards = standardized_relative_convincingness(scores, correct, sneaky, group_size=4, answered=answered)
    assert rewards.tolist() == [-2, -2, -2, -2]
    rewards = standardized_relative_convincingness(scores, ~sneaky, sneaky, group_size=4, answered=flags(1, 1, 1, 0))
    assert rewards.tolist() == [-2, -2, -2, -2]


@pytest.mark.parametrize("reward", RELATIVE)
def test_a_group_is_independent_of_the_others(reward):
    correct, sneaky = flags(1, 0, 1, 1, 0, 0, 1, 1), helpful_then_sneaky()
    together = reward(SCORES, correct, sneaky, group_size=4)
    apart = [reward(SCORES[rows], correct[rows], sneaky[rows], group_size=4) for rows in (slice(4), slice(4, 8))]
    assert torch.equal(together, torch.cat(apart))


@pytest.mark.parametrize("reward", RELATIVE)
def test_a_constant_added_to_every_score_changes_nothing(reward):
    correct, sneaky = flags(1, 0, 1, 1, 0, 0, 1, 1), helpful_then_sneaky()
    assert torch.equal(
        reward(SCORES, correct, sneaky, group_size=4), reward(SCORES + 1024, correct, sneaky, group_size=4)
    )
