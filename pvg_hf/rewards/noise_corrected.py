"""Rewards that are right in the mean although the correctness they are told is noisy."""

import torch

from pvg_hf.noise.rates import check_rates
from pvg_hf.rewards.inputs import RewardFunction, read_flags


def noise_corrected(reward: RewardFunction, rho0: float, rho1: float) -> RewardFunction:
    """
    The unbiased estimate of `reward` from a noisy label (C25). With R(c) what `reward` pays if the solution were of
    correctness c, and D = 1 - rho0 - rho1, it pays [(1 - rho0) R(1) - rho1 R(0)] / D under the label 1, and
    [(1 - rho1) R(0) - rho0 R(1)] / D under the label 0.

    For a reward that is affine in the label (`correctness_only`), centring a group's rewards leaves a mere factor 1 / D,
    and dividing them by their standard deviation removes the correction exactly (C25).

    Args:
        reward (`RewardFunction`):
            Any reward whose value for a solution depends on that solution's own correctness only, as all of this package
            do.
        rho0 (`float`):
            P(label 1 | truth 0), in [0, 1).
        rho1 (`float`):
            P(label 0 | truth 1), in [0, 1), `rho0 + rho1 < 1`.

    Returns:
        `RewardFunction`: of the same convention, with the noisy label for `correct`; further keywords go to `reward`.

    Raises:
        ValueError: if a rate lies outside [0, 1), or they sum to 1 or more.
    """
    check_rates(rho0, rho1)
    youden_j = 1 - rho0 - rho1  # D

    def corrected(scores: torch.Tensor, correct: torch.Tensor, sneaky: torch.Tensor, **options) -> torch.Tensor:
        correct = read_flags("correct", correct, scores)
        if_correct = reward(scores, torch.ones_like(correct), sneaky, **options)
        if_incorrect = reward(scores, torch.zeros_like(correct), sneaky, **options)
        label_one = ((1 - rho0) * if_correct - rho1 * if_incorrect) / youden_j
        label_zero = ((1 - rho1) * if_incorrect - rho0 * if_correct) / youden_j
        return torch.where(correct, label_one, label_zero)

    return corrected
