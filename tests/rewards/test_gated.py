import torch

from pvg_hf.rewards import correctness_gated_convincingness, count_floor_violations, role_aligned

SCORES = torch.tensor([1.5, -0.5, -3.0, 4.0, 2.5, -1.0])
CORRECT = torch.tensor([1, 0, 1, 0, 1, 0], dtype=torch.bool)
SNEAKY = torch.tensor([0, 0, 0, 1, 1, 1], dtype=torch.bool)


def test_cgc_is_the_score_in_role_and_the_floor_out_of_role():
    rewards = correctness_gated_convincingness(SCORES, CORRECT, SNEAKY, group_size=3)
    assert rewards.tolist() == [1.5, -2, -3, 4, -2, -1]


def test_cgc_floor_is_a_setting():
    rewards = correctness_gated_convincingness(SCORES, CORRECT, SNEAKY, group_size=3, floor=-5.0)
    assert rewards.tolist() == [1.5, -5, -3, 4, -5, -1]


def test_cgc_floor_is_not_rounded_to_float32():
    rewards = correctness_gated_convincingness(SCORES.double(), CORRECT, SNEAKY, group_size=3, floor=-2.1)
    assert rewards[1].item() == -2.1


def test_cgc_is_the_floor_without_an_answer_in_either_role():
    answered = torch.tensor([0, 1, 1, 0, 1, 1], dtype=torch.bool)
    rewards = correctness_gated_convincingness(SCORES, CORRECT, SNEAKY, group_size=3, answered=answered)
    assert rewards.tolist() == [-2, -2, -3, -2, -2, -1]


def test_floor_violations_are_counted_among_aligned_solutions_only():
    aligned = role_aligned(CORRECT, SNEAKY)  # scores 1.5, -3, 4, -1
    assert count_floor_violations(SCORES, aligned) == 1
    assert count_floor_violations(SCORES, aligned, -1.0) == 2  # V > V0 is strict
    assert count_floor_violations(SCORES, aligned, -3.5) == 0
