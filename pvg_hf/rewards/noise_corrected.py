"""Corrects rewards for noisy correctness labels, so that they are unbiased."""

import torch

from pvg_hf.config.noise_section import check_rates
from pvg_hf.rewards.inputs import RewardFunction, read_flags


def noise_corrected(reward: RewardFunction, rho0: float, rho1: float) -> RewardFunction:
    """
    Correct a reward for label noise: its mean over the noise is the reward for the clean label (Cai et al. 2025).

    Let R(c) be the reward of the solution if its correctness were c, and D = 1 - rho0 - rho1. The corrected reward is
    [(1 - rho0) R(1) - rho1 R(0)] / D under label 1, and [(1 - rho1) R(0) - rho0 R(1)] / D under label 0.

    If the reward is affine in the label (`correctness_only`), centring a group's rewards leaves only a factor 1 / D of
    the correction, and dividing them by their standard deviation removes it completely (Cai et al. 2025).

    Args:
        reward (`RewardFunction`):
            Any reward whose value for a solution depends on the correctness of that solution only; all rewards of this
            package do.
        rho0 (`float`):
            P(label 1 | truth 0), in [0, 1).
        rho1 (`float`):
            P(label 0 | truth 1), in [0, 1), `rho0 + rho1 < 1`.

    Returns:
        `RewardFunction`: takes the noisy label as `correct`; further keyword arguments are passed to `reward`.

    Raises:
        ValueError: if a rate is outside [0, 1), or they sum to 1 or more.
    """
    check_rates(rho0, rho1)
    youden_j = 1 - rho0 - rho1  # D

    def corrected(scores: torch.Tensor, correct: torch.Tensor, sneaky: torch.Tensor, **options) -> torch.Tensor:
        correct = read_flags("correct", correct, scores)
        # R(1) and R(0) for every solution, whatever its label.
        if_correct = reward(scores, torch.ones_like(correct), sneaky, **options)
        if_incorrect = reward(scores, torch.zeros_like(correct), sneaky, **options)
        label_one = ((1 - rho0) * if_correct - rho1 * if_incorrect) / youden_j
        label_zero = ((1 - rho1) * if_incorrect - rho0 * if_correct) / youden_j
        return torch.where(correct, label_one, label_zero)

    return corrected
