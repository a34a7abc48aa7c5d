"""The section of a recipe about a verifier that writes an evaluation and predicts a score."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from pvg_hf.analyses.scaled import ScaledVerification
from pvg_hf.config.fields import BatchSize, Count, GroupSize, NonNegative, Positive, Share, section


@section
class ScoreConfig:
    """A verifier that writes an evaluation and predicts a score (`verifier.kind: score`)."""

    proofs_per_step: BatchSize = Field(
        8, description="Proofs of a step, on each process; each is a group of evaluations."
    )
    num_generations: GroupSize = Field(4, description="Evaluations of a proof: one group (K).")
    temperature: Positive = Field(0.8, description="Temperature of evaluations, in training and in use.")
    max_completion_length: Count = Field(
        1024, description="Longest evaluation, in tokens; one that is cut is not read."
    )
    beta: NonNegative = Field(0.0, description="Weight of the KL divergence from the initial verifier.")
    combination: Literal["additive", "multiplicative"] = Field(
        "additive",
        description="How form, score and the meta-verifier's word become a reward; see docs/score-verifier.md.",
    )
    format_weight: NonNegative = Field(0.125, description="Of the form, in the additive combination.")
    score_weight: NonNegative = Field(0.875, description="Of the score, in the additive combination.")
    meta_verifier: Literal["none", "task", "initial"] = Field(
        "none",
        description="Who says whether the issues that an analysis names exist: nobody; the task, where it can tell; or the weights "
        "that the round's verifier starts from, asked the other question.",
    )
    judge_share: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0,
        description="Share of the training rows that ask about an analysis, so that the verifier can check analyses too; from a "
        "task that writes such rows.",
    )
    eval_steps: Count = Field(
        10, description="Steps between validations, by whose reward the best checkpoint is chosen."
    )
    eval_proofs: Count = Field(64, description="Proofs of D_V's held-out part in a validation, at most.")
    num_analyses: Count = Field(2, description="Evaluations over which a proof's score is the mean, when it scores.")
    estimate: Literal["sampled", "expected"] = Field(
        "sampled",
        description="What an evaluation counts for: the score that it boxed, or the expected score under the model's own "
        "distribution at the box, which scatters less.",
    )
    labels: Literal["task", "auto"] = Field(
        "task",
        description="Who scores the round's new proofs on D_V for the next verifier: the task, or the round's own verifier by "
        "scaled verification. The base prover's proofs are scored by the task.",
    )
    label_analyses: Count = Field(8, description="n of scaled verification: analyses of a proof.")
    label_checks: Count = Field(3, description="m: checks of each analysis that finds something wrong; odd.")
    label_agreements: Count = Field(3, description="k: analyses that must agree on a label.")
    report_proofs: Count = Field(
        200, description="Test proofs of the round whose evaluations are kept and judged, at most."
    )
    evaluate_prompt: str | None = Field(
        None,
        description="Jinja template over `problem` and `proof`; by default the one stored with the model, or a plain one.",
    )
    judge_prompt: str | None = Field(
        None, description="The same over `problem`, `proof` and `analysis`, for checking an analysis."
    )
    chat_template_kwargs: dict[str, Any] | None = Field(
        None,
        description="What the model's chat template sees, e.g. `{enable_thinking: false}`; by default what is stored with the "
        "model, or nothing.",
    )

    @model_validator(mode="after")
    def _check_rule(self) -> "ScoreConfig":
        self.rule()
        return self

    def rule(self) -> ScaledVerification:
        """n, m and k."""
        try:
            return ScaledVerification(self.label_analyses, self.label_checks, self.label_agreements)
        except ValueError as err:  # which names them as the class does
            text = str(err).removesuffix(".")
            for name in ("num_analyses", "num_checks", "num_agreements"):
                text = text.replace(name, name.replace("num_", "label_"))
            raise ValueError(text) from err


@section
class SelfEvaluationConfig:
    """A prover that evaluates its own proof behind it, and is paid for being right about it (DS25)."""

    proof_weight: Share = Field(0.76, description="Of the verifier's score of the proof.")
    evaluation_weight: Share = Field(0.24, description="Of how near the prover's own score is to the verifier's.")
