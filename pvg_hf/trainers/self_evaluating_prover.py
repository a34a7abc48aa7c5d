"""A prover that evaluates its own proof behind it, and is paid for both."""

from collections.abc import Mapping
from typing import Any

import torch
from accelerate.utils import gather

from pvg_hf.analyses.form import read_evaluation, text_before_evaluation
from pvg_hf.rewards.predicted_score import score_agreement, self_evaluating_reward
from pvg_hf.trainers.prover_grpo import ProverGRPOTrainer
from pvg_hf.trainers.role_metrics import RoleSignals
from pvg_hf.trainers.sampled_grpo import completion_text
from pvg_hf.trainers.score_verifier import MetaVerifier, checked_qualities

NAN = float("nan")


class SelfEvaluatingProverTrainer(ProverGRPOTrainer):
    """
    Trains a prover whose completion is a proof and, behind it, its own evaluation of that proof (DS25). Its reward is
    `R_format * (proof_weight * V + evaluation_weight * (1 - |s' - V|) * R_meta)`, V being the scorer's score of the proof, in
    [0, 1], and s' the score that it gives itself. Scorer and grader see the proof alone.

    Args:
        proof_weight (`float`, defaults to 0.76), evaluation_weight (`float`, defaults to 0.24):
            The two shares.
        meta_verifier (`Callable`, *optional*):
            R_meta of the evaluations, as of [`ScoreVerifierTrainer`]; 1 by default.
        kwargs:
            Those of [`ProverGRPOTrainer`].

    Example:

    ```python
    trainer = SelfEvaluatingProverTrainer(
        "path/or/hub-id",
        scorer=ScoreVerifier.from_pretrained("verifier"),
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
        proof_weight: float = 0.76,
        evaluation_weight: float = 0.24,
        meta_verifier: MetaVerifier | None = None,
        **kwargs,
    ):
        self._weights = {"proof_weight": proof_weight, "evaluation_weight": evaluation_weight}
        self._meta_verifier = meta_verifier
        self._own: torch.Tensor | None = None  # of the step at hand, gathered: (3, N)
        super().__init__(model, **kwargs)
        self.reward_func_names[0] = "self_evaluation"

    def _solution_in(self, completion: str | list[Mapping[str, Any]]) -> str:
        return text_before_evaluation(completion_text(completion))

    def _gather_signals(self, inputs, completions, completion_ids_list, scores):
        signals, told = super()._gather_signals(inputs, completions, completion_ids_list, scores)
        read = [
            read_evaluation(completion_text(completion), is_cut=is_cut)
            for completion, is_cut in zip(completions, self._are_cut(completion_ids_list), strict=True)
        ]
        own = [NAN if evaluation.score is None else evaluation.score for evaluation in read]
        quality = [1.0] * len(read)
        if self._meta_verifier is not None:
            asked = [(row["problem"], self._solution_in(text)) for row, text in zip(inputs, completions, strict=True)]
            analyses = [evaluation.analysis or "" for evaluation in read]
            said = self._meta_verifier([p for p, _ in asked], [proof for _, proof in asked], analyses)
            quality = [value or 0.0 for value in checked_qualities(said, len(analyses))]
        local = [[evaluation.has_form for evaluation in read], own, quality]
        self._log_completion_extra("own_score", own)
        self._own = gather(torch.tensor(local, dtype=torch.float32, device=scores.device).T.contiguous()).T
        return signals, told

    def _role_rewards(self, signals: RoleSignals, told: torch.Tensor) -> torch.Tensor:
        has_form, own, quality = self._own
        agreement = score_agreement(own, signals.scores)
        metrics = self._metrics["train" if self.model.training else "eval"]
        metrics["self_evaluation/format_rate"].append(has_form.mean().item())
        metrics["self_evaluation/agreement"].append(agreement.mean().item())
        if self._meta_verifier is not None:
            metrics["self_evaluation/quality"].append(quality.mean().item())
        return self_evaluating_reward(has_form, signals.scores, agreement, quality, **self._weights)
