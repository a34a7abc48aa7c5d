"""Arguments of the trainer for verifiers that write an evaluation and predict a score."""

from dataclasses import dataclass, field
from typing import cast

from pvg_hf.analyses.settings import EvaluationOptions, ScoreVerifierSettings
from pvg_hf.config.player_sections import Combination, ScoreConfig
from pvg_hf.rewards.predicted_score import EvaluationReward
from pvg_hf.trainers.common.grpo_config import SampledGRPOConfig
from pvg_hf.trainers.common.options import check_options, option, parsed_dict


@dataclass
class ScoreVerifierConfig(SampledGRPOConfig):
    """
    Arguments of [`ScoreVerifierTrainer`]: those of [`SampledGRPOConfig`], and the following.

    Defaults that differ from TRL's: `num_generations` is 4 (the evaluations of one proof form a group), `temperature`
    is 0.8, `max_completion_length` is 1024, every step is logged, three checkpoints are kept, and the best one has the
    highest validation reward (load it with `load_best_model_at_end`).

    Args:
        combination (`str`, defaults to `"additive"`):
            How form and score are combined to one reward, see [`~pvg_hf.rewards.EvaluationReward`]; or
            `"multiplicative"`.
        format_weight (`float`, defaults to 0.125), score_weight (`float`, defaults to 0.875):
            Weights of the additive combination; normalised, with a warning if they do not sum to 1.
        evaluate_prompt (`str`, *optional*), judge_prompt (`str`, *optional*):
            Jinja templates of the two prompts, see [`ScoreVerifierSettings`]; by default those stored with the model,
            else built-in ones. They are saved with the model, and so is TRL's argument `chat_template_kwargs`.

    Raises:
        ValueError: for a setting outside its range.
    """

    num_generations: int | None = option(ScoreConfig, "num_generations")
    temperature: float = option(ScoreConfig, "temperature")
    max_completion_length: int | None = option(ScoreConfig, "max_completion_length")
    save_total_limit: int | None = field(default=3, metadata={"help": "Checkpoints to keep."})
    metric_for_best_model: str | None = field(default="eval_reward", metadata={"help": "Metric of the best model."})
    greater_is_better: bool | None = field(default=True, metadata={"help": "Whether larger values are better."})
    combination: str = option(ScoreConfig, "combination")
    format_weight: float = option(ScoreConfig, "format_weight")
    score_weight: float = option(ScoreConfig, "score_weight")
    evaluate_prompt: str | None = option(ScoreConfig, "evaluate_prompt")
    judge_prompt: str | None = option(ScoreConfig, "judge_prompt")

    def __post_init__(self):
        # Only its own arguments: TRL has an `eval_steps` with other values than the recipe's.
        own = ScoreVerifierConfig.__annotations__.keys() & ScoreConfig.__annotations__.keys()
        check_options(self, ScoreConfig, *sorted(own))
        reward = self.evaluation_reward()
        self.format_weight, self.score_weight = reward.format_weight, reward.score_weight  # so that it warns only once
        super().__post_init__()
        self.verifier_settings()

    def evaluation_reward(self) -> EvaluationReward:
        """Return the reward of an evaluation."""
        return EvaluationReward(cast(Combination, self.combination), self.format_weight, self.score_weight)

    def verifier_settings(self, source: str | None = None) -> ScoreVerifierSettings:
        """Return the settings to save with the weights; `source` names the initial weights."""
        return ScoreVerifierSettings.for_model(
            source, cast(EvaluationOptions, self), parsed_dict(self.model_init_kwargs).get("revision")
        )
