"""
Rewards for writing an evaluation and predicting a score, for verifiers and self-evaluating provers (DeepSeekMath-V2,
2025).
"""

import logging
from dataclasses import dataclass

import torch

from pvg_hf.config.fields import check_option
from pvg_hf.config.player_sections import Combination, ScoreConfig, SelfEvaluationConfig

logger = logging.getLogger(__name__)

_DEFAULTS, _SELF_DEFAULTS = ScoreConfig(), SelfEvaluationConfig()


def score_agreement(predicted: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """
    Agreement of predicted and true scores, R_score: `max(0, 1 - |predicted - reference|)`.

    Args:
        predicted (`torch.Tensor` of shape `(N,)`):
            Predicted scores; NaN if unreadable, which gives an agreement of 0.
        reference (`torch.Tensor` of shape `(N,)`):
            True scores; NaN if unknown.

    Returns:
        `torch.Tensor` of shape `(N,)`: in [0, 1], or NaN without a reference.
    """
    agreement = (1 - (predicted - reference).abs()).clamp(min=0)
    # NaN stays NaN without a reference: such an evaluation can be neither right nor wrong.
    return torch.where(predicted.isnan() & ~reference.isnan(), torch.zeros_like(agreement), agreement)


@dataclass(frozen=True)
class EvaluationReward:
    """
    Combines form, score and quality of an evaluation to one reward in [0, 1].

    Args:
        combination (`str`, defaults to `"additive"`):
            `"additive"`: `format_weight * R_format + score_weight * R_score * R_meta`; `"multiplicative"`
            (DeepSeekMath-V2):
            `R_format * R_score * R_meta`.
        format_weight (`float`, defaults to 0.125), score_weight (`float`, defaults to 0.875):
            Weights of the additive combination, at least 0. They are normalised, with a warning if they do not sum to
            1.

    Raises:
        ValueError: for an unknown combination, or weights that are negative or all 0.
    """

    combination: Combination = _DEFAULTS.combination
    format_weight: float = _DEFAULTS.format_weight
    score_weight: float = _DEFAULTS.score_weight

    def __post_init__(self):
        check_option(ScoreConfig, "combination", self.combination)
        weights = (self.format_weight, self.score_weight)
        total = sum(weights)
        if not (min(weights) >= 0 and 0 < total < float("inf")):
            raise ValueError(
                f"`format_weight` and `score_weight` must be at least 0, and one of them above 0; got {weights[0]} and"
                f" {weights[1]}."
            )
        if abs(total - 1) > 1e-6:
            scaled = tuple(weight / total for weight in weights)
            logger.warning("The weights %s and %s do not sum to 1; using %.4g and %.4g.", *weights, *scaled)
            object.__setattr__(self, "format_weight", scaled[0])  # the dataclass is frozen
            object.__setattr__(self, "score_weight", scaled[1])

    def __call__(
        self, has_form: torch.Tensor, agreement: torch.Tensor, quality: torch.Tensor | None = None
    ) -> torch.Tensor:
        """
        Combine the parts of the reward.

        Args:
            has_form (`torch.Tensor` of shape `(N,)`):
                R_format, 0 or 1.
            agreement (`torch.Tensor` of shape `(N,)`):
                R_score, see [`score_agreement`].
            quality (`torch.Tensor` of shape `(N,)`, *optional*):
                R_meta, in [0, 1]; 1 by default.

        Returns:
            `torch.Tensor` of shape `(N,)`: rewards; NaN without a reference score.
        """
        earned = agreement if quality is None else agreement * quality
        if self.combination == "multiplicative":
            return has_form * earned
        return self.format_weight * has_form + self.score_weight * earned


def self_evaluating_reward(
    has_form: torch.Tensor,
    proof_score: torch.Tensor,
    agreement: torch.Tensor,
    quality: torch.Tensor | None = None,
    *,
    proof_weight: float = _SELF_DEFAULTS.proof_weight,
    evaluation_weight: float = _SELF_DEFAULTS.evaluation_weight,
) -> torch.Tensor:
    """
    Reward of a prover that also evaluates its own proof (DeepSeekMath-V2, 2025).

    It is `R_format * (proof_weight * R_Y + evaluation_weight * R_score * R_meta)`.

    Args:
        has_form (`torch.Tensor` of shape `(N,)`):
            R_format of the prover's own evaluation, 0 or 1.
        proof_score (`torch.Tensor` of shape `(N,)`):
            R_Y, the verifier's score for the proof, in [0, 1].
        agreement (`torch.Tensor` of shape `(N,)`):
            R_score, the agreement of the prover's own score with the verifier's.
        quality (`torch.Tensor` of shape `(N,)`, *optional*):
            R_meta of the prover's own evaluation; 1 by default.
        proof_weight (`float`, defaults to 0.76), evaluation_weight (`float`, defaults to 0.24):
            alpha and beta of DeepSeekMath-V2.

    Returns:
        `torch.Tensor` of shape `(N,)`: in [0, 1].
    """
    earned = agreement if quality is None else agreement * quality
    return has_form * (proof_weight * proof_score + evaluation_weight * earned)
