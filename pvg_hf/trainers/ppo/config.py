"""Arguments of the PPO trainer for provers."""

from dataclasses import dataclass, field

from pvg_hf.config.player_sections import PPOConfig
from pvg_hf.trainers.common.options import check_options, option
from pvg_hf.trainers.prover.config import ProverGRPOConfig

CLIPPED_LOSSES = ("dapo", "grpo", "dr_grpo", "bnpo")  # TRL's losses that use PPO's clipped objective


@dataclass
class ProverPPOConfig(ProverGRPOConfig):
    """
    Arguments of [`ProverPPOTrainer`]: those of [`ProverGRPOConfig`], and the following.

    `beta` weighs the KL divergence within the token-level rewards, `epsilon` clips the policy's ratio, and
    `num_iterations` is the number of epochs over a batch, 4 by default. `disable_dropout` is on by default, so that
    only training moves the ratio away from 1.

    Args:
        gamma (`float`, defaults to 1.0):
            Discount of later rewards per token, in [0, 1].
        gae_lambda (`float`, defaults to 0.95):
            In [0, 1]: 1 uses the observed return, with all its noise; 0 relies on the critic.
        whiten_advantages (`bool`, defaults to `True`):
            Whether to shift and scale the advantages of a batch, over all processes, to mean 0 and variance 1.
        kl_coef (`float`, *optional*):
            Alias of `beta`, from TRL's former PPO trainer.
        vf_coef (`float`, defaults to 0.1):
            Weight of the value loss relative to the policy loss.
        cliprange_value (`float`, *optional*, defaults to 0.2):
            Maximum change of a value on one batch, in units of the reward; `None` for no limit.
        critic_learning_rate (`float`, *optional*):
            Learning rate of the critic; `learning_rate` by default. Both follow the same schedule.
        target_kl (`float`, *optional*):
            Skip the remaining epochs over a batch once the policy's KL divergence from the one that wrote it, per
            token and as of the last step, is above this.

    Raises:
        ValueError: for a setting outside its range, or a GRPO setting that is incompatible with token-level
            advantages.
    """

    num_iterations: int = option(PPOConfig, "num_iterations")
    disable_dropout: bool = field(default=True, metadata={"help": "Switch the prover's dropout off."})
    gamma: float = option(PPOConfig, "gamma")
    gae_lambda: float = option(PPOConfig, "gae_lambda")
    whiten_advantages: bool = option(PPOConfig, "whiten_advantages")
    kl_coef: float | None = field(default=None, metadata={"help": "Alias of `beta`."})
    vf_coef: float = option(PPOConfig, "vf_coef")
    cliprange_value: float | None = option(PPOConfig, "cliprange_value")
    critic_learning_rate: float | None = option(PPOConfig, "critic_learning_rate")
    target_kl: float | None = option(PPOConfig, "target_kl")

    def __post_init__(self):
        check_options(self, PPOConfig)
        if self.kl_coef is not None:
            self._take_kl_coef(self.kl_coef)
        super().__post_init__()
        self._check_other_algorithms()

    def _take_kl_coef(self, kl_coef: float) -> None:
        default = ProverGRPOConfig.__dataclass_fields__["beta"].default
        if self.beta not in (default, kl_coef):
            raise ValueError(
                f"`beta` is {self.beta} and `kl_coef` is {kl_coef}, two names of the same weight; set only one."
            )
        self.beta = kl_coef

    def _check_other_algorithms(self) -> None:
        """Refuse settings of GRPO that would have no effect, or would make the algorithm something else than PPO."""
        wanted = {
            "loss_type": CLIPPED_LOSSES,
            "importance_sampling_level": ("token",),
            "multi_objective_aggregation": ("sum_then_normalize",),
            "scale_rewards": ("none",),  # the critic replaces the group's mean; `whiten_advantages` scales
            "off_policy_mask_threshold": (None,),
        }
        for name, allowed in wanted.items():
            value = vars(self)[name]
            if value not in allowed:
                raise ValueError(
                    f"`{name}` is `{value}`, but PPO's token-level advantages require "
                    f"{' or '.join(f'`{option}`' for option in allowed)}."
                )
        if self.target_kl is not None and self.fp16:
            raise ValueError(
                "`target_kl` and `fp16` are both set, but a step that `target_kl` skips has no gradients, which the"
                " gradient scaler of `fp16` does not support; use `bf16`."
            )
