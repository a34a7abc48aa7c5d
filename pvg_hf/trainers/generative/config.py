"""Arguments of the verifier that writes an evaluation and predicts a score."""

from dataclasses import dataclass, field

from pvg_hf.analyses.settings import ScoreVerifierSettings
from pvg_hf.config.players import ScoreConfig
from pvg_hf.rewards.predicted_score import EvaluationReward
from pvg_hf.trainers.common.grpo_config import SampledGRPOConfig
from pvg_hf.trainers.common.options import check_options, option

_SCORE_OPTIONS = ("num_generations", "temperature", "max_completion_length", "combination")


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

    num_generations: int | None = option(ScoreConfig, "num_generations")
    temperature: float = option(ScoreConfig, "temperature")
    max_completion_length: int | None = option(ScoreConfig, "max_completion_length")
    save_total_limit: int | None = field(default=3, metadata={"help": "Checkpoints to keep."})
    metric_for_best_model: str | None = field(default="eval_reward", metadata={"help": "What the best has most of."})
    greater_is_better: bool | None = field(default=True, metadata={"help": "Whether more of it is better."})
    combination: str = option(ScoreConfig, "combination")
    format_weight: float = option(ScoreConfig, "format_weight")
    score_weight: float = option(ScoreConfig, "score_weight")
    evaluate_prompt: str | None = option(ScoreConfig, "evaluate_prompt")
    judge_prompt: str | None = option(ScoreConfig, "judge_prompt")

    def __post_init__(self):
        check_options(self, ScoreConfig, *_SCORE_OPTIONS)
        reward = self.evaluation_reward()
        self.format_weight, self.score_weight = reward.format_weight, reward.score_weight  # warned of once
        super().__post_init__()
        self.verifier_settings()

    def evaluation_reward(self) -> EvaluationReward:
        """What pays an evaluation."""
        return EvaluationReward(self.combination, self.format_weight, self.score_weight)

    def verifier_settings(self, source: str | None = None) -> ScoreVerifierSettings:
        """What is saved with the weights; `source` names those that the training starts from."""
        return ScoreVerifierSettings.for_model(source, self, (self.model_init_kwargs or {}).get("revision"))
