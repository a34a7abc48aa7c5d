import pytest
import torch

from pvg_hf.rewards import (
    correctness_gated_convincingness,
    correctness_only,
    goodhart,
    noise_corrected,
    signed_relative_convincingness,
    standardized_relative_convincingness,
)

RHO0, RHO1 = 0.1, 0.2  # D = .7
SCORES = torch.tensor([1.0, 2, 3, 6, 0, 2, 3, -1], dtype=torch.float64)
SNEAKY = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1], dtype=torch.bool)
CORRECT = torch.tensor([1, 0, 1, 0, 1, 0, 1, 0], dtype=torch.bool)
ANSWERED = torch.tensor([1, 1, 1, 1, 0, 1, 1, 1], dtype=torch.bool)
REWARDS = [
    signed_relative_convincingness,
    correctness_gated_convincingness,
    goodhart,
    correctness_only,
    standardized_relative_convincingness,
]


def test_corrected_correctness_by_hand():
    labels, sneaky = torch.tensor([1.0, 0.0]), torch.tensor([False, False])
    rewards = noise_corrected(correctness_only, RHO0, RHO1)(torch.zeros(2), labels, sneaky, group_size=2)
    # R(1) = 1, R(0) = 0: (1 - .1) / .7 under the label 1, -.1 / .7 under the label 0
    assert rewards.tolist() == pytest.approx([9 / 7, -1 / 7])


def test_corrected_cgc_by_hand_and_with_its_own_setting():
    labels, sneaky = torch.tensor([True, False]), torch.tensor([True, True])
    corrected = noise_corrected(correctness_gated_convincingness, RHO0, RHO1)
    rewards = corrected(torch.tensor([3.0, 3.0]), labels, sneaky, group_size=2, floor=-4.0)
    # Sneaky: R(1) = -4, R(0) = 3. (.9 * -4 - .2 * 3) / .7 = -6; (.8 * 3 - .1 * -4) / .7 = 4
    assert rewards.tolist() == pytest.approx([-6, 4])


@pytest.mark.parametrize("reward", REWARDS)
def test_corrected_rewards_are_unbiased(reward):
    corrected = noise_corrected(reward, RHO0, RHO1)
    told_one = corrected(SCORES, torch.ones(8), SNEAKY, group_size=4, answered=ANSWERED)
    told_zero = corrected(SCORES, torch.zeros(8), SNEAKY, group_size=4, answered=ANSWERED)
    prob_one = RHO0 + (1 - RHO0 - RHO1) * CORRECT.double()  # P(label 1 | truth), solution by solution
    expectation = prob_one * told_one + (1 - prob_one) * told_zero
    clean = reward(SCORES, CORRECT, SNEAKY, group_size=4, answered=ANSWERED)
    assert expectation.tolist() == pytest.approx(clean.tolist())


@pytest.mark.parametrize("reward", REWARDS)
def test_without_noise_nothing_is_corrected(reward):
    corrected = noise_corrected(reward, 0.0, 0.0)(SCORES, CORRECT, SNEAKY, group_size=4, answered=ANSWERED)
    assert torch.equal(corrected, reward(SCORES, CORRECT, SNEAKY, group_size=4, answered=ANSWERED))


def test_for_an_affine_reward_centring_leaves_a_factor_and_standardising_nothing():
    labels, sneaky = torch.tensor([1.0, 1, 0, 1], dtype=torch.float64), torch.zeros(4, dtype=torch.bool)
    scores = torch.zeros(4, dtype=torch.float64)
    plain = correctness_only(scores, labels, sneaky, group_size=4)
    corrected = noise_corrected(correctness_only, RHO0, RHO1)(scores, labels, sneaky, group_size=4)
    plain, corrected = plain - plain.mean(), corrected - corrected.mean()
    assert corrected.tolist() == pytest.approx((plain / 0.7).tolist())
    assert (corrected / corrected.std()).tolist() == pytest.approx((plain / plain.std()).tolist())


@pytest.mark.parametrize(
    ("rho0", "rho1", "message"),
    [(0.5, 0.5, r"0\.5 \+ 0\.5"), (-0.1, 0.0, "`rho0` is -0.1"), (0.0, 1.0, "`rho1` is 1.0")],
)
def test_rates_outside_their_range_are_errors(rho0, rho1, message):
    with pytest.raises(ValueError, match=message):
        noise_corrected(goodhart, rho0, rho1)


def test_labels_that_are_neither_0_nor_1_are_errors():
    with pytest.raises(ValueError, match="`correct` must be 0 or 1"):
        noise_corrected(goodhart, RHO0, RHO1)(SCORES, torch.full((8,), 0.5), SNEAKY, group_size=4)
