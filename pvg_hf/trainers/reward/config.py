"""Arguments of the verifier's trainer."""

from dataclasses import dataclass, field
from typing import get_args

from trl import RewardConfig

from pvg_hf.config.fields import default_of
from pvg_hf.config.noise_section import NoiseConfig, Resample, check_rates
from pvg_hf.config.player_sections import VerifierConfig
from pvg_hf.core.extensions import suggest
from pvg_hf.losses import UNBOUNDED_CORRECTIONS, LabelCorrection
from pvg_hf.noise.rates import pair_flip_rate
from pvg_hf.trainers.common.distributed import turn_off_gpu_defaults
from pvg_hf.trainers.common.options import check_options, option
from pvg_hf.trainers.reward.invariance import InvarianceArguments

_RESAMPLES = (*get_args(Resample), "mean")  # in a recipe, `noise.soft_labels` is the mean


@dataclass
class NoisyRewardConfig(InvarianceArguments, RewardConfig):
    """
    Arguments of [`NoisyRewardTrainer`]: those of [`~trl.RewardConfig`], those of
    [`~pvg_hf.trainers.reward.invariance.InvarianceArguments`], and the following.

    On a machine without a GPU, `bf16` and `gradient_checkpointing` are off. `center_rewards_coefficient` is refused;
    see `center`.

    Args:
        loss (`str`, defaults to `"bradley_terry"`):
            `"bradley_terry"` on pairs, or `"cross_entropy"` on single solutions with labels 1 (chosen) and 0
            (rejected).
        correction (`str`, defaults to `"none"`):
            Correction for label noise: `"none"`, `"smoothing"` (Bradley-Terry only), `"forward"`, `"backward"` or
            `"exact"` (Bradley-Terry only; both need `center` above 0), see [`~pvg_hf.losses.bradley_terry`],
            [`~pvg_hf.losses.pointwise_cross_entropy`] and [`~pvg_hf.losses.exact_pairwise`].
        center (`float`, defaults to 0.005):
            lambda >= 0, the weight of the mean squared score of SINGLE solutions (Kirchner et al. 2024; the default is
            that of Kim & Lee 2026).
        noise_level (`str`, defaults to `"label"`):
            What the injected noise flips: `"label"`, the label of each solution independently, so that a pair can
            become reversed or tied; or `"pair"`, the order of a pair.
        noise_rho0 (`float`, defaults to 0.0):
            Injected P(label 1 | truth 0), in [0, 1); at pair level P(a pair's order is reversed), in [0, .5).
        noise_rho1 (`float`, defaults to 0.0):
            Injected P(label 0 | truth 1); `noise_rho0 + noise_rho1 < 1`. At pair level it must equal `noise_rho0`.
        noise_resample (`str`, defaults to `"fixed"`):
            `"fixed"` draws once per solution (at pair level per pair), `"epoch"` again in each epoch, `"step"` again
            in each optimiser step. `"mean"` draws nothing: the labels are soft, 1 - `noise_rho1` and `noise_rho0`,
            which requires `loss="cross_entropy"` (for Bradley-Terry use `correction="smoothing"` without injected
            noise).
        noise_seed (`int`, *optional*):
            Seed of the noise; `seed` by default.
        rho0, rho1 (`float`, *optional*):
            Rates that the correction assumes; the injected ones by default. Set them if the labels of the dataset are
            already noisy.
        flip_rate (`float`, *optional*):
            P(a pair that is not tied is reversed) that a correction of Bradley-Terry assumes, in [0, .5). By default
            it is derived from the assumed rates: `pair_flip_rate(rho0, rho1)` at label level, the rate itself at pair
            level. Not used by `"cross_entropy"`.

    Raises:
        ValueError: for a setting outside its range, or settings that contradict each other.
    """

    gradient_checkpointing: bool | None = field(  # type: ignore[assignment]  # TRL's has no default by device
        default=None, metadata={"help": "Recompute activations; by default on with a GPU and off without."}
    )
    loss: str = option(VerifierConfig, "loss")
    correction: str = option(VerifierConfig, "correction")
    center: float = option(VerifierConfig, "center")
    noise_level: str = option(NoiseConfig, "level")
    noise_rho0: float = field(
        default=default_of(NoiseConfig, "rho0"),
        metadata={"help": "Injected P(label 1 | truth 0), or P(pair is reversed)."},
    )
    noise_rho1: float = field(
        default=default_of(NoiseConfig, "rho1"),
        metadata={"help": "Injected P(label 0 | truth 1), or P(pair is reversed)."},
    )
    noise_resample: str = field(
        default=default_of(NoiseConfig, "resample"),
        metadata={"help": "When to draw: `fixed`, each `epoch` or `step`; or use the `mean`."},
    )
    noise_seed: int | None = field(default=None, metadata={"help": "Seed of the noise; `seed` by default."})
    rho0: float | None = field(default=None, metadata={"help": "Assumed P(label 1 | truth 0); default: injected."})
    rho1: float | None = field(default=None, metadata={"help": "Assumed P(label 0 | truth 1); default: injected."})
    flip_rate: float | None = field(
        default=None, metadata={"help": "Assumed P(an untied pair is reversed); by default from the rates."}
    )

    def __post_init__(self):
        check_options(self, VerifierConfig, "loss", "correction", "center")
        check_options(self, NoiseConfig, noise_level="level", flip_rate="epsilon")
        if self.noise_resample not in _RESAMPLES:
            raise ValueError(
                f"`noise_resample` is `{self.noise_resample}`. {suggest(str(self.noise_resample), _RESAMPLES)}"
            )
        self._check_loss()
        self._check_noise()
        self.check_invariance()
        self._check_penalty()
        turn_off_gpu_defaults(self)
        super().__post_init__()
        if self.noise_seed is None:
            self.noise_seed = self.seed

    @property
    def injects_noise(self) -> bool:
        """Whether training flips any label."""
        return self.noise_rho0 > 0 or self.noise_rho1 > 0

    @property
    def assumed_rates(self) -> tuple[float, float]:
        """Rates `(rho0, rho1)` that the correction assumes."""
        rho0 = self.noise_rho0 if self.rho0 is None else self.rho0
        rho1 = self.noise_rho1 if self.rho1 is None else self.rho1
        return rho0, rho1

    @property
    def assumed_flip_rate(self) -> float:
        """P(a pair that is not tied is reversed) that the correction assumes, in [0, .5)."""
        if self.flip_rate is not None:
            return self.flip_rate
        rho0, rho1 = self.assumed_rates
        return rho0 if self.noise_level == "pair" else pair_flip_rate(rho0, rho1)

    def _check_loss(self) -> None:
        if self.loss == "cross_entropy" and self.correction not in get_args(LabelCorrection):
            raise ValueError(
                f"`correction={self.correction}` is not defined for `loss=cross_entropy`; it allows "
                f"{', '.join(get_args(LabelCorrection))}."
            )
        if self.center_rewards_coefficient is not None:
            raise ValueError(
                f"`center_rewards_coefficient` is {self.center_rewards_coefficient}: TRL's term squares the SUM of a"
                " pair's two scores, so that it ignores (3, -3). This trainer centres every single score (Kirchner et"
                " al. 2024): set `center` instead (0 switches it off)."
            )
        # A pair has no soft label in Bradley-Terry; smoothing is the equivalent.
        if self.noise_resample == "mean" and self.loss != "cross_entropy":
            raise ValueError(
                "`noise_resample=mean` gives soft labels to single solutions: it requires `loss=cross_entropy`. For"
                " pairs, set `correction=smoothing` and inject no noise."
            )
        if self.correction in UNBOUNDED_CORRECTIONS and self.center == 0:
            raise ValueError(
                f"`correction={self.correction}` is unbounded below, and `center` is 0; set `center` above 0 (e.g."
                " 0.005), or `correction=forward`."
            )

    def _check_penalty(self) -> None:
        """Check the settings for a penalty, whose risks are means over whole batches, and for balanced batches."""
        if self.invariance_method.is_balanced and self.train_sampling_strategy != "random":
            raise ValueError(
                f"`invariance` is `{self.invariance}`, which orders the pairs itself; `train_sampling_strategy` is "
                f"`{self.train_sampling_strategy}`. Leave it as `random`."
            )
        if self.invariance_method.penalty is None:
            return
        where = f"`invariance` is `{self.invariance}`, whose risks are means of the plain Bradley-Terry loss"
        if (self.loss, self.correction) != ("bradley_terry", "none"):
            raise ValueError(
                f"{where}; `loss` is `{self.loss}` and `correction` is `{self.correction}`. Leave both at their"
                " defaults, or use `invariance=balanced`, which works with all of them."
            )
        if self.gradient_accumulation_steps > 1:
            raise ValueError(
                f"{where} over a batch, which are not means of micro-batches; `gradient_accumulation_steps` is "
                f"{self.gradient_accumulation_steps}. Set it to 1 and raise `per_device_train_batch_size`; "
                "`gradient_checkpointing` saves memory."
            )

    def _check_noise(self) -> None:
        injected, assumed = (self.noise_rho0, self.noise_rho1), self.assumed_rates
        for what, rates in (("Injected noise", injected), ("The noise that the correction assumes", assumed)):
            try:
                check_rates(*rates)
            except ValueError as err:
                raise ValueError(f"{what}: {err}") from err
            if self.noise_level == "pair" and rates[0] != rates[1]:
                raise ValueError(
                    f"{what} has the rates {rates}; with `noise_level=pair` there is a single rate, P(a pair's order"
                    " is reversed), so that both must be equal."
                )
        # A correction at rates of 0 is the plain loss, so zero rates must be stated to show that they are meant.
        stated = (self.rho0, self.rho1, self.flip_rate)
        if self.correction != "none" and injected == (0, 0) and stated == (None, None, None):
            raise ValueError(
                f"`correction={self.correction}` needs the rates of wrong labels, or it changes nothing: set `rho0`"
                " and `rho1`, or `flip_rate`, to the assumed rates of the data's labels (0 is allowed)."
            )
        if self.correction == "exact" and self.noise_level == "pair":
            raise ValueError(
                "`correction=exact` is for labels that flip independently, and `noise_level` is `pair`; use "
                "`correction=backward`, which is exact for reversed pairs."
            )
