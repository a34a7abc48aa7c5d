"""Rewards for provers, as pure functions of tensors over groups of consecutive rows."""

from pvg_hf.rewards.baselines import acceptance, correctness_only, goodhart
from pvg_hf.rewards.composite import composite, gated_multiplicative
from pvg_hf.rewards.convincingness import (
    correctness_gated_convincingness,
    count_floor_violations,
    signed_relative_convincingness,
    standardized_relative_convincingness,
)
from pvg_hf.rewards.correction_audit import CorrectionAudit, audit_noise_correction
from pvg_hf.rewards.inputs import RewardFunction, noise_corrected, role_aligned
from pvg_hf.rewards.predicted_score import EvaluationReward, score_agreement, self_evaluating_reward
from pvg_hf.rewards.record import REWARDS, Reward, as_reward, load_reward, reward

__all__ = [
    "REWARDS",
    "CorrectionAudit",
    "EvaluationReward",
    "Reward",
    "RewardFunction",
    "acceptance",
    "as_reward",
    "audit_noise_correction",
    "composite",
    "correctness_gated_convincingness",
    "correctness_only",
    "count_floor_violations",
    "gated_multiplicative",
    "goodhart",
    "load_reward",
    "noise_corrected",
    "reward",
    "role_aligned",
    "score_agreement",
    "self_evaluating_reward",
    "signed_relative_convincingness",
    "standardized_relative_convincingness",
]
