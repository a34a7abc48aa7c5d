"""A trainer for provers that end a proof with an evaluation of it, and are rewarded for both."""

from collections.abc import Mapping
from typing import Any

import torch
from accelerate.utils import gather

from pvg_hf.analyses.form import read_evaluation, text_before_evaluation
from pvg_hf.config.fields import check_option
from pvg_hf.config.player_sections import SelfEvaluationConfig
from pvg_hf.rewards.predicted_score import score_agreement, self_evaluating_reward
from pvg_hf.trainers.common.grpo import completion_text
from pvg_hf.trainers.generative.meta_verification import MetaVerifier, ask_meta_verifier
from pvg_hf.trainers.prover.metrics import RoleSignals
from pvg_hf.trainers.prover.trainer import ProverGRPOTrainer

NAN = float("nan")

_DEFAULTS = SelfEvaluationConfig()


class SelfEvaluatingProverTrainer(ProverGRPOTrainer):
    """
    Trains a prover to write a proof followed by its own evaluation of that proof (DeepSeekMath-V2, 2025).

    The reward is `R_format * (proof_weight * V + evaluation_weight * (1 - |s' - V|) * R_meta)`, where V is the
    scorer's score of the proof, in [0, 1], and s' is the score that the prover gives itself. Scorer and grader only
    see the proof.

    Args:
        proof_weight (`float`, defaults to 0.76), evaluation_weight (`float`, defaults to 0.24):
            The two weights.
        meta_verifier (`Callable`, *optional*):
            R_meta of the evaluations, as for [`ScoreVerifierTrainer`]; 1 by default.
        kwargs:
            Further arguments of [`ProverGRPOTrainer`].

    Raises:
        ValueError: for a weight outside [0, 1].

    Example:

    ```python
    trainer = SelfEvaluatingProverTrainer(
        "path/or/hub-id",
        scorer=GenerativeVerifier.from_pretrained("verifier"),
        grader=task.grade,
        args=ProverGRPOConfig("out", max_steps=50),
        train_dataset=Dataset.from_list(rows),
    )
    ```
    """

    def __init__(
        self,
        model,
        *,
        proof_weight: float = _DEFAULTS.proof_weight,
        evaluation_weight: float = _DEFAULTS.evaluation_weight,
        meta_verifier: MetaVerifier | None = None,
        **kwargs,
    ):
        check_option(SelfEvaluationConfig, "proof_weight", proof_weight)
        check_option(SelfEvaluationConfig, "evaluation_weight", evaluation_weight)
        self._weights = {"proof_weight": proof_weight, "evaluation_weight": evaluation_weight}
        self._meta_verifier = meta_verifier
        self._own = torch.empty(5, 0)  # evaluations of the current step, gathered: (5, N)
        super().__init__(model, **kwargs)
        self.reward_func_names[0] = "self_evaluation"

    def _graded_text(self, completion: str | list[Mapping[str, Any]]) -> str:
        return text_before_evaluation(completion_text(completion))

    def _gather_signals(self, inputs, completions, completion_ids_list, scores):
        signals, observed = super()._gather_signals(inputs, completions, completion_ids_list, scores)
        read = [
            read_evaluation(completion_text(completion), is_cut=is_cut)
            for completion, is_cut in zip(completions, self._are_cut(completion_ids_list), strict=True)
        ]
        own = [NAN if evaluation.score is None else evaluation.score for evaluation in read]
        problems, proofs = [row["problem"] for row in inputs], [self._shown_text(text) for text in completions]
        rated = ask_meta_verifier(self._meta_verifier, problems, proofs, read)
        has_form = [evaluation.has_form for evaluation in read]
        local = [has_form, own, rated.quality, rated.was_asked, rated.is_unreadable]
        self._log_completion_extra("own_score", own)
        # (rows of all processes, 5) -> (5, N)
        self._own = gather(torch.tensor(local, dtype=torch.float32, device=scores.device).T.contiguous()).T
        return signals, observed

    def _role_rewards(self, signals: RoleSignals, observed: torch.Tensor) -> torch.Tensor:
        has_form, own, quality, was_asked, is_unreadable = self._own
        agreement = score_agreement(own, signals.scores)
        metrics = {"format_rate": has_form, "agreement": agreement}
        if was_asked.any():
            asked = was_asked.bool()
            metrics |= {"quality": quality[asked], "unreadable": is_unreadable[asked]}
        self._record_metrics({f"self_evaluation/{name}": values.mean().item() for name, values in metrics.items()})
        return self_evaluating_reward(has_form, signals.scores, agreement, quality, **self._weights)
