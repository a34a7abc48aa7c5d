"""Arguments of the GRPO trainer for provers."""

from dataclasses import dataclass, field
from typing import Any

from pvg_hf.config.noise_section import check_rates
from pvg_hf.config.player_sections import ProverConfig
from pvg_hf.config.sections import WatchdogConfig
from pvg_hf.trainers.common.grpo_config import SampledGRPOConfig
from pvg_hf.trainers.common.options import check_options, option


@dataclass
class ProverGRPOConfig(SampledGRPOConfig):
    """
    Arguments of [`ProverGRPOTrainer`]: those of [`SampledGRPOConfig`], and the following.

    Defaults that differ from TRL's: `beta` is 0.05 (a small KL keeps the helpful role stable while the sneaky one
    changes; 0 saves the reference's forward pass), and `scale_rewards` is `"none"` (dividing by the group's standard
    deviation would rescale the -1 of `src` and the -2 of the other rewards, which changes the game). Every step is
    logged. On a machine without a GPU, `bf16` and `gradient_checkpointing` are off.

    Args:
        reward (`str`, defaults to `"standardized_src"`):
            A key of [`~pvg_hf.rewards.REWARDS`], or `"package.module:Name"` of a function with the same signature.
        reward_options (`dict[str, Any]`, *optional*):
            Further arguments of the reward, such as `{"floor": -2.0}` for `cgc`.
        reward_correction (`str`, defaults to `"none"`):
            `"backward"`: the reward's unbiased form under a noisy grader, see [`~pvg_hf.rewards.inputs`].
        rho0, rho1 (`float`, defaults to 0.0):
            Rates that the correction assumes: P(graded correct | incorrect) and P(graded incorrect | correct), with a
            sum below 1.
        max_truncated_share (`float`, defaults to 1.0):
            The training ends with an error if a larger share of a generation batch reached `max_completion_length`, in
            [0, 1]. 1 never ends it.
        acceptance_threshold (`float`, *optional*):
            Lowest score that the verifier accepts. If set, `exploit_rate` is logged.

    Raises:
        ValueError: for a setting outside its range.
    """

    # Parsed as JSON on a command line; transformers only iterates over them.
    _VALID_DICT_FIELDS = (*SampledGRPOConfig._VALID_DICT_FIELDS, "reward_options")  # type: ignore[assignment]

    beta: float = option(ProverConfig, "beta")
    scale_rewards: str = option(ProverConfig, "scale_rewards")
    reward: str = option(ProverConfig, "reward")
    reward_options: dict[str, Any] | str | None = field(default=None, metadata={"help": "Arguments of the reward."})
    reward_correction: str = option(ProverConfig, "reward_correction")
    rho0: float = field(default=0.0, metadata={"help": "Assumed P(graded correct | incorrect)."})
    rho1: float = field(default=0.0, metadata={"help": "Assumed P(graded incorrect | correct)."})
    # 1.0 stops nothing: by itself the trainer has no watchdogs, and a game passes `watchdogs.max_truncated`.
    max_truncated_share: float = field(default=1.0, metadata={"help": "Stop above this share of truncation."})
    acceptance_threshold: float | None = field(
        default=None, metadata={"help": "Lowest score that the verifier accepts."}
    )

    def __post_init__(self):
        check_options(self, WatchdogConfig, max_truncated_share="max_truncated")
        check_options(self, ProverConfig, "beta", "reward_correction")
        check_rates(self.rho0, self.rho1)
        super().__post_init__()
        check_options(self, ProverConfig, "scale_rewards")  # TRL has made text of a boolean
