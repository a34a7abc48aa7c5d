"""Checks whether correcting a reward for noisy labels changes what a prover learns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch

from pvg_hf.config.fields import check_option
from pvg_hf.config.noise_section import check_rates
from pvg_hf.config.player_sections import ProverConfig, RewardScaling
from pvg_hf.rewards.inputs import RewardFunction, noise_corrected
from pvg_hf.rewards.record import load_reward

_DEFAULTS = ProverConfig()

NUM_PROBLEMS = 64  # problems of the probe, each with a group in either role
SCALING_EPS = 1e-4  # added to a standard deviation before dividing by it, as in TRL
TOLERANCE = 1e-3  # a relative difference that `SCALING_EPS` alone can cause


@dataclass(frozen=True)
class CorrectionAudit:
    """
    Effect of a reward's noise correction on the advantages that a prover is trained with.

    Args:
        verdict (`str`):
            `"real"`: the corrected advantages are not a multiple of the uncorrected ones. `"rescaling"`: they are a
            multiple, so that the correction only changes the balance of reward and KL. `"nothing"`: they are equal.
        reason (`str`):
            A sentence for a log.
        factor (`float`, *optional*):
            The multiple; `None` if the correction is real.
    """

    verdict: Literal["real", "rescaling", "nothing"]
    reason: str
    factor: float | None


def audit_noise_correction(
    reward: RewardFunction,
    rho0: float,
    rho1: float,
    *,
    group_size: int = 8,
    scale_rewards: RewardScaling = _DEFAULTS.scale_rewards,
    signals: Sequence[str] = (),
) -> CorrectionAudit:
    """
    Compare the advantages of a reward with those of its [`noise_corrected`] form on a seeded probe.

    The probe consists of groups of both roles with normal scores and random labels, all answered.

    If a reward is affine in the label, group centring leaves only a factor 1 / (1 - rho0 - rho1) of the correction,
    and the division by a standard deviation removes it completely (Cai et al. 2025).

    Args:
        reward (`RewardFunction`):
            The reward, with all its options bound except `group_size` and `answered`.
        rho0 (`float`):
            P(label 1 | truth 0), in [0, 1).
        rho1 (`float`):
            P(label 0 | truth 1), in [0, 1), `rho0 + rho1 < 1`.
        group_size (`int`, defaults to 8):
            Solutions per problem and role, at least 2.
        scale_rewards (`str`, defaults to `"none"`):
            Divisor of the group-centred rewards, as in `trl.GRPOConfig`: none, or the standard deviation of their
            `"group"` or of the `"batch"`.
        signals (`Sequence[str]`, *optional*):
            Further arguments of the reward, see [`~pvg_hf.rewards.Reward`]; uniform in [0, 1] on the probe.

    Returns:
        [`CorrectionAudit`].

    Raises:
        ValueError: for rates that cannot be corrected for, fewer than two solutions per group, an unknown scaling, or
            a reward that depends on the labels of other solutions, for which the correction is biased.
    """
    check_rates(rho0, rho1)
    if group_size < 2:
        raise ValueError(f"`group_size` is {group_size}; a group must have at least 2 solutions.")
    check_option(ProverConfig, "scale_rewards", scale_rewards)
    probe = _Probe.draw(group_size, signals)
    probe.check_independence(reward)
    if rho0 == rho1 == 0:
        return CorrectionAudit("nothing", "Both rates are 0.", 1.0)
    if not probe.reads_labels(reward):
        return CorrectionAudit("nothing", "The reward is the same under either label.", 1.0)
    plain = probe.advantages(reward, scale_rewards)
    corrected = probe.advantages(noise_corrected(reward, rho0, rho1), scale_rewards)
    # Least-squares factor between both; the correction is real if it leaves a residual.
    factor = ((plain @ corrected) / (plain @ plain)).item()
    if _differs(corrected, factor * plain):
        return CorrectionAudit("real", "Corrected advantages are not a multiple of the uncorrected ones.", None)
    if abs(factor - 1) > TOLERANCE:
        reason = (
            f"Corrected advantages are the uncorrected ones times {factor:.3f}: the reward is affine in the label, so"
            " that the correction only changes the balance of reward and KL."
        )
        return CorrectionAudit("rescaling", reason, factor)
    reason = (
        "Corrected advantages equal the uncorrected ones: the reward is affine in the label, and dividing by the"
        f" standard deviation of the {scale_rewards} removes the correction."
    )
    return CorrectionAudit("nothing", reason, 1.0)


def _differs(values: torch.Tensor, others: torch.Tensor) -> bool:
    return bool((values - others).norm() > TOLERANCE * others.norm())


def audit_prover(prover: ProverConfig, rates: tuple[float, float]) -> CorrectionAudit:
    """Apply [`audit_noise_correction`] to a recipe's `prover.reward_correction`, at rates `(rho0, rho1)`."""
    reward = load_reward(prover.reward)
    return audit_noise_correction(
        partial(reward, **prover.reward_options),
        *rates,
        group_size=prover.num_generations,
        scale_rewards=prover.scale_rewards,
        signals=reward.signals,
    )


@dataclass(frozen=True)
class _Probe:
    """
    Solutions on which a reward is evaluated; tensors of shape `(2 * NUM_PROBLEMS * group_size,)`, float64 scores and
    flags.
    """

    scores: torch.Tensor
    labels: torch.Tensor
    sneaky: torch.Tensor
    group_size: int
    further: Mapping[str, torch.Tensor]

    @classmethod
    def draw(cls, group_size: int, signals: Sequence[str]) -> "_Probe":
        generator = torch.Generator().manual_seed(0)
        num_solutions = 2 * NUM_PROBLEMS * group_size
        scores = torch.randn(num_solutions, generator=generator, dtype=torch.float64)
        labels = torch.rand(num_solutions, generator=generator) < 0.5
        sneaky = torch.arange(num_solutions) >= num_solutions // 2
        further = {name: torch.rand(num_solutions, generator=generator, dtype=torch.float64) for name in signals}
        return cls(scores, labels, sneaky, group_size, further)

    def rewards(self, reward: RewardFunction, labels: torch.Tensor) -> torch.Tensor:
        answered = torch.ones_like(labels)
        return reward(self.scores, labels, self.sneaky, group_size=self.group_size, answered=answered, **self.further)

    def reads_labels(self, reward: RewardFunction) -> bool:
        return not self.rewards(reward, self.labels).equal(self.rewards(reward, ~self.labels))

    def check_independence(self, reward: RewardFunction) -> None:
        """Check that flipping the label of each group's first solution leaves the other rewards unchanged."""
        is_first = torch.arange(len(self.labels)) % self.group_size == 0
        moved = (self.rewards(reward, self.labels) - self.rewards(reward, self.labels ^ is_first)).abs() > TOLERANCE
        if (moved & ~is_first).any():
            raise ValueError(
                "The reward of a solution depends on the labels of others in its group; the correction for noisy"
                " labels is only defined if it depends on the solution's own label."
            )

    def advantages(self, reward: RewardFunction, scale_rewards: str) -> torch.Tensor:
        rewards = self.rewards(reward, self.labels).view(-1, self.group_size)
        centred = rewards - rewards.mean(dim=1, keepdim=True)
        if scale_rewards == "group":
            centred = centred / (rewards.std(dim=1, keepdim=True) + SCALING_EPS)
        elif scale_rewards == "batch":
            centred = centred / (rewards.std() + SCALING_EPS)
        return centred.flatten()
