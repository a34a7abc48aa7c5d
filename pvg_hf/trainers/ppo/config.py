"""Arguments of the role-conditioned prover with a critic."""

from dataclasses import dataclass, field

from pvg_hf.config.players import PPOConfig
from pvg_hf.trainers.common.options import check_options, option
from pvg_hf.trainers.prover.config import ProverGRPOConfig

CLIPPED_LOSSES = ("dapo", "grpo", "dr_grpo", "bnpo")  # of TRL's losses, those that are PPO's clipped objective


@dataclass
class ProverPPOConfig(ProverGRPOConfig):
    """
    Arguments of [`ProverPPOTrainer`]: those of [`ProverGRPOConfig`], and the following. Of these, `beta` weighs the KL
    divergence within the token-level rewards, `epsilon` clips the policy's ratio, `num_iterations` is the number of epochs
    over a batch and 4 by default, and `disable_dropout` is on by default, so that the ratio differs from 1 by training alone.

    Args:
        gamma (`float`, defaults to 1.0):
            Discount of later rewards per token, in [0, 1].
        gae_lambda (`float`, defaults to 0.95):
            In [0, 1]: 1 takes what a solution was really paid, with all its noise; 0 the critic's word for it.
        whiten_advantages (`bool`, defaults to `True`):
            Shift and scale the advantages of a batch, over all processes, to mean 0 and variance 1.
        kl_coef (`float`, *optional*):
            Another name of `beta`, that of TRL's former PPO.
        vf_coef (`float`, defaults to 0.1):
            Weight of the value loss beside the policy's.
        cliprange_value (`float`, *optional*, defaults to 0.2):
            How far a value may go from the old one on a batch, in units of the reward; `None` does not hold it.
        critic_learning_rate (`float`, *optional*):
            Of the critic; `learning_rate` by default. Both follow the same schedule.
        target_kl (`float`, *optional*):
            Leaves out what is left of the epochs over a batch once the policy's KL divergence from the one that wrote it, per
            token and as of the last step, is above this.

    Raises:
        ValueError: for a setting outside its range, or one of GRPO's that token-level advantages do not go with.
    """

    num_iterations: int = option(PPOConfig, "num_iterations")
    disable_dropout: bool = field(default=True, metadata={"help": "Turn the prover's dropout off."})
    gamma: float = option(PPOConfig, "gamma")
    gae_lambda: float = option(PPOConfig, "gae_lambda")
    whiten_advantages: bool = option(PPOConfig, "whiten_advantages")
    kl_coef: float | None = field(default=None, metadata={"help": "Another name of `beta`."})
    vf_coef: float = option(PPOConfig, "vf_coef")
    cliprange_value: float | None = option(PPOConfig, "cliprange_value")
    critic_learning_rate: float | None = option(PPOConfig, "critic_learning_rate")
    target_kl: float | None = option(PPOConfig, "target_kl")

    def __post_init__(self):
        check_options(self, PPOConfig)
        if self.kl_coef is not None:
            self._take_kl_coef()
        super().__post_init__()
        self._check_other_algorithms()

    def _take_kl_coef(self) -> None:
        default = ProverGRPOConfig.__dataclass_fields__["beta"].default
        if self.beta not in (default, self.kl_coef):
            raise ValueError(
                f"`beta` is {self.beta} and `kl_coef` is {self.kl_coef}, which are two names of one weight; leave one out."
            )
        self.beta = self.kl_coef

    def _check_other_algorithms(self) -> None:
        """What would be without effect, or be carried out as something else than PPO."""
        wanted = {
            "loss_type": CLIPPED_LOSSES,
            "importance_sampling_level": ("token",),
            "multi_objective_aggregation": ("sum_then_normalize",),
            "scale_rewards": ("none",),  # the critic takes the place of the group; `whiten_advantages` scales
            "off_policy_mask_threshold": (None,),
        }
        for name, allowed in wanted.items():
            value = vars(self)[name]
            if value not in allowed:
                raise ValueError(
                    f"`{name}` is `{value}`, and PPO's token-level advantages go with "
                    f"{' or '.join(f'`{option}`' for option in allowed)} only."
                )
        if self.target_kl is not None and self.fp16:
            raise ValueError(
                "`target_kl` is set and so is `fp16`, whose gradient scaler takes no step without gradients, as a step that is "
                "left out is; use `bf16`."
            )
