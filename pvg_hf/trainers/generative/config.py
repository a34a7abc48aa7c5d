"""Arguments of the verifier that writes an evaluation and predicts a score."""

from dataclasses import dataclass, field

from pvg_hf.analyses.settings import ScoreVerifierSettings
from pvg_hf.rewards.predicted_score import EvaluationReward
from pvg_hf.trainers.common.grpo_config import SampledGRPOConfig


@dataclass
class ScoreVerifierConfig(SampledGRPOConfig):
    """
    Arguments of [`ScoreVerifierTrainer`]: those of [`SampledGRPOConfig`], and the following. Where a default differs from
    TRL's: `num_generations` is 4 (evaluations of one proof, which are a group), `temperature` 0.8,
    `max_completion_length` 1024, every step is logged, three checkpoints are kept, and the best is the one of the highest
    validation reward (load it with `load_best_model_at_end`).

    Args:
        combination (`str`, defaults to `"additive"`):
            How form and score become one reward, see [`~pvg_hf.rewards.EvaluationReward`]; or `"multiplicative"`.
        format_weight (`float`, defaults to 0.125), score_weight (`float`, defaults to 0.875):
            Of the additive combination; renormalised, with a warning, if they do not sum to 1.
        evaluate_prompt (`str`, *optional*), judge_prompt (`str`, *optional*):
            Jinja templates of the two questions, see [`ScoreVerifierSettings`]; by default those that are stored with the
            model, or else plain ones. They are saved with the model, and so are `chat_template_kwargs`, TRL's own argument.

    Raises:
        ValueError: for a setting outside its range.
    """

    num_generations: int | None = field(default=4, metadata={"help": "Evaluations of a proof in one group."})
    temperature: float = field(default=0.8, metadata={"help": "At which evaluations are sampled."})
    max_completion_length: int | None = field(default=1024, metadata={"help": "Longest evaluation, in tokens."})
    save_total_limit: int | None = field(default=3, metadata={"help": "Checkpoints to keep."})
    metric_for_best_model: str | None = field(default="eval_reward", metadata={"help": "What the best has most of."})
    greater_is_better: bool | None = field(default=True, metadata={"help": "Whether more of it is better."})
    combination: str = field(default="additive", metadata={"help": "`additive` or `multiplicative`."})
    format_weight: float = field(default=0.125, metadata={"help": "Of the form, in the additive combination."})
    score_weight: float = field(default=0.875, metadata={"help": "Of the score, in the additive combination."})
    evaluate_prompt: str | None = field(default=None, metadata={"help": "Asks for an evaluation of a proof."})
    judge_prompt: str | None = field(default=None, metadata={"help": "Asks for one of an analysis."})

    def __post_init__(self):
        if self.num_generations is None or self.num_generations < 2:
            raise ValueError(
                f"`num_generations` (K) is {self.num_generations}; an evaluation is paid relative to the others of its "
                "proof, so that a group takes at least 2."
            )
        if self.max_completion_length is None:
            raise ValueError(
                "`max_completion_length` is the length at which an evaluation is cut off: it needs a number."
            )
        reward = self.evaluation_reward()
        self.format_weight, self.score_weight = reward.format_weight, reward.score_weight  # warned of once
        super().__post_init__()
        self.verifier_settings()

    def evaluation_reward(self) -> EvaluationReward:
        """What pays an evaluation."""
        return EvaluationReward(self.combination, self.format_weight, self.score_weight)

    def verifier_settings(self, source: str | None = None) -> ScoreVerifierSettings:
        """What is saved with the weights; `source` names those that the training starts from."""
        return ScoreVerifierSettings.for_model(
            source,
            evaluate_prompt=self.evaluate_prompt,
            judge_prompt=self.judge_prompt,
            max_new_tokens=self.max_completion_length,
            temperature=self.temperature,
            chat_template_kwargs=self.chat_template_kwargs,
            revision=(self.model_init_kwargs or {}).get("revision"),
        )
