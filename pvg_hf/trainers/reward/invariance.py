"""Invariance over environments: the penalties, their running state over processes, and batches with as many of each environment."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.data import Sampler
from transformers import TrainerCallback

from pvg_hf.config.players import InvarianceConfig
from pvg_hf.core.extensions import load_function, running, suggest
from pvg_hf.core.seeding import derive_rng
from pvg_hf.trainers.common.options import check_options, option


def environments_per_batch(num_environments: int, batch_size: int) -> int:
    """The most environments that a batch can hold equally many rows of: a divisor of its size."""
    return max(number for number in range(1, num_environments + 1) if batch_size % number == 0)


def check_batch(num_environments: int, batch_size: int, *, is_balanced: bool, crowded: str) -> None:
    """
    Args:
        num_environments (`int`):
            Of the training set.
        batch_size (`int`):
            Pairs of a batch over all processes.
        is_balanced (`bool`):
            Whether every batch is to hold as many pairs of each environment.
        crowded (`str`):
            `"refuse"` or `"cycle"`: what to do with environments that a batch cannot hold so.

    Raises:
        ValueError: if a batch cannot hold them, and is not to cycle through them, or cannot hold two of them.
    """
    num_held = environments_per_batch(num_environments, batch_size) if is_balanced else batch_size
    where = f"A batch of {batch_size} pairs, over all processes,"
    if is_balanced and num_held == 1 < num_environments:
        raise ValueError(
            f"{where} cannot hold as many pairs of one of {num_environments} environments as of another: take an even "
            "batch size."
        )
    if num_held < num_environments and crowded == "refuse":
        evenly = " evenly" if is_balanced else ""
        raise ValueError(
            f"{where} cannot hold {num_environments} environments{evenly}. Take a multiple of {num_environments} pairs, or "
            "let batches go through the environments in turn (`cycle`)."
        )


class BalancedSampler(Sampler[int]):
    """
    Rows in an order in which each block of `batch_size` holds equally many rows of each environment; where they are too
    many for that, of as many of them as divide the block, in turn. An epoch has as many batches as the rows give; the
    rows of a small environment come several times in it, all of them once before any comes again.

    Args:
        environments (`Sequence[str]`):
            Of each row.
        batch_size (`int`):
            Of a batch over all processes.
        seed (`int`):
            Of the order; an epoch has a draw of its own.
    """

    def __init__(self, environments: Sequence[str], batch_size: int, *, seed: int):
        names, numbers = np.unique(np.asarray(environments, dtype=object).astype(str), return_inverse=True)
        self.members = [np.flatnonzero(numbers == number) for number in range(len(names))]
        self.batch_size = batch_size
        self.num_batches = -(-len(numbers) // batch_size)
        self.num_held = environments_per_batch(len(names), batch_size)
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Called by the dataloader before each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.num_batches * self.batch_size

    def __iter__(self) -> Iterator[int]:
        streams = [self._stream(number) for number in range(len(self.members))]
        for batch in range(self.num_batches):
            held = [(batch * self.num_held + place) % len(streams) for place in range(self.num_held)]
            for _ in range(self.batch_size // self.num_held):
                yield from (next(streams[number]) for number in held)

    def _stream(self, number: int) -> Iterator[int]:
        """The rows of an environment without end, in a new order each time round."""
        rng = derive_rng(self.seed, "balanced", self.epoch, number)
        while True:
            yield from rng.permutation(self.members[number]).tolist()


Regulariser = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""`(margins, environments) -> penalty`, a scalar that can be differentiated; at least two environments are present."""

INTERFACE = "(margins, environments) -> penalty"

METHODS = ("none", "balanced", "vrex", "irmv1", "balanced+vrex", "balanced+irmv1")

DEFAULT_WEIGHTS = {"vrex": 10.0, "irmv1": 100.0}  # DomainBed's

_BALANCED = "balanced"


class Method(NamedTuple):
    """
    What `invariance` names.

    Args:
        is_balanced (`bool`):
            Whether every batch holds as many pairs of each environment.
        penalty (`str`, *optional*):
            `"vrex"`, `"irmv1"` or `package.module:Name`; `None` without a penalty.
    """

    is_balanced: bool
    penalty: str | None


class InvariantRisk(NamedTuple):
    """
    Args:
        loss (`torch.Tensor`):
            Scalar, the mean of the environments' risks plus the weighted penalty.
        penalty (`torch.Tensor`):
            Scalar, unweighted; 0 where fewer than two environments are present.
        risks (`dict[int, float]`):
            The mean loss of each environment that is present.
    """

    loss: torch.Tensor
    penalty: torch.Tensor
    risks: dict[int, float]


def read_method(name: str) -> Method:
    """
    Raises:
        ValueError: if `name` is none of `METHODS` and names nothing of the user's own.
    """
    if name == "none":
        return Method(False, None)
    first, plus, rest = name.partition("+")
    is_balanced = first == _BALANCED
    penalty = rest if is_balanced and plus else name
    if name == _BALANCED:
        return Method(True, None)
    if penalty not in DEFAULT_WEIGHTS and ":" not in penalty:
        raise ValueError(
            f"Unknown invariance `{name}`. {suggest(name, METHODS)} A penalty of your own is named as `package.module:Name`, "
            "also after `balanced+`."
        )
    return Method(is_balanced, penalty)


def load_regulariser(penalty: str, irm_form: str = "plain") -> Regulariser:
    """
    Args:
        penalty (`str`):
            `"vrex"`, `"irmv1"`, or `package.module:Name` of a [`Regulariser`].
        irm_form (`str`, defaults to `"plain"`):
            `"plain"` or `"two_halves"`, see [`irm_v1`] and [`irm_v1_two_halves`].

    Raises:
        ValueError: if `package.module:Name` is not a function. A custom penalty raises `ExtensionError` in place of its
            own errors.
    """
    if penalty == "vrex":
        return v_rex
    if penalty == "irmv1":
        return irm_v1 if irm_form == "plain" else irm_v1_two_halves
    return partial(_call_custom, load_function(penalty, "invariance penalty", INTERFACE), penalty)


def _call_custom(regulariser: Regulariser, name: str, margins: torch.Tensor, environments: torch.Tensor) -> object:
    with running(f"The invariance penalty `{name}`"):
        return regulariser(margins, environments)


def invariant_risk(
    margins: torch.Tensor, environments: torch.Tensor, regulariser: Regulariser, weight: float
) -> InvariantRisk:
    """
    The mean of the environments' risks R_e, the mean plain Bradley-Terry loss on each one's pairs, plus a penalty.

    Args:
        margins (`torch.Tensor` of shape `(num_pairs,)`):
            d = V+ - V- of the pairs of all processes; at least one.
        environments (`torch.Tensor` of shape `(num_pairs,)`):
            The number of each pair's environment.
        regulariser ([`Regulariser`]):
            The penalty. It is skipped where the batch holds fewer than two environments.
        weight (`float`):
            Of the penalty, at least 0.

    Raises:
        ValueError: if the regulariser returns anything but a scalar.
    """
    risks = torch.stack([F.softplus(-part).mean() for part in _split_by_environment(margins, environments)])
    penalty = margins.new_zeros(())
    if len(risks) > 1:
        penalty = regulariser(margins, environments)
        if not isinstance(penalty, torch.Tensor) or penalty.shape != ():
            raise ValueError(f"An invariance penalty must be a scalar tensor; got {penalty!r}.")
    loss = risks.mean() + weight * penalty if weight > 0 else risks.mean()
    numbers = environments.unique().tolist()
    return InvariantRisk(loss, penalty, dict(zip(numbers, risks.tolist(), strict=True)))


def v_rex(margins: torch.Tensor, environments: torch.Tensor) -> torch.Tensor:
    """The population variance of the environments' risks."""
    risks = torch.stack([F.softplus(-part).mean() for part in _split_by_environment(margins, environments)])
    return risks.var(correction=0)


def irm_v1(margins: torch.Tensor, environments: torch.Tensor) -> torch.Tensor:
    """
    The mean over environments of the squared derivative of R_e(w V) with respect to the scale w, at w = 1. For
    Bradley-Terry it is mean(-d sigmoid(-d)), so that no second backward pass is needed. With few pairs of an environment
    it is too high in the mean: by the variance of the derivative's estimate.
    """
    derivatives = [_scale_derivatives(part).mean() for part in _split_by_environment(margins, environments)]
    return torch.stack(derivatives).square().mean()


def irm_v1_two_halves(margins: torch.Tensor, environments: torch.Tensor) -> torch.Tensor:
    """
    [`irm_v1`] without its bias: the derivatives of an environment's first, third, ... pairs and of its second, fourth,
    ... pairs are multiplied in place of squaring one, so that it may be negative. An environment with a single pair is
    left out.
    """
    derivatives = [_scale_derivatives(part) for part in _split_by_environment(margins, environments) if len(part) > 1]
    if not derivatives:
        return margins.new_zeros(())
    return torch.stack([part[::2].mean() * part[1::2].mean() for part in derivatives]).mean()


def _scale_derivatives(margins: torch.Tensor) -> torch.Tensor:
    """d/dw softplus(-w d) at w = 1."""
    return -margins * torch.sigmoid(-margins)


def _split_by_environment(values: torch.Tensor, environments: torch.Tensor) -> list[torch.Tensor]:
    """The values of each environment that is present, in the order of their numbers."""
    return [values[environments == number] for number in environments.unique()]


@dataclass
class InvarianceArguments:
    """
    Part of [`NoisyRewardConfig`].

    Args:
        invariance (`str`, defaults to `"none"`):
            `"none"`, `"balanced"` (every batch holds as many pairs of each environment), `"vrex"`, `"irmv1"`,
            `"balanced+vrex"`, `"balanced+irmv1"`, or a [`~pvg_hf.trainers.reward.invariance.Regulariser`] of your own as
            `package.module:Name` or `balanced+package.module:Name`.
        environment_column (`str`, defaults to `"environment"`):
            The column of the training set that names each pair's environment.
        invariance_weight (`float`, *optional*):
            Weight of the penalty, at least 0; 10 for V-REx, 100 for IRMv1 (both DomainBed's) and 1 for your own by
            default. Where it is above 1 the whole loss is divided by it.
        invariance_warmup_steps (`int`, *optional*):
            Steps before the penalty is switched on, where the optimiser's moments are reset; a tenth of all steps by
            default.
        irm_form (`str`, defaults to `"plain"`):
            `"plain"` or `"two_halves"`, the unbiased one, of IRMv1.
        crowded_environments (`str`, defaults to `"cycle"`):
            What to do where a batch, over all processes, cannot hold equally many pairs of all environments: `"cycle"`
            through them, each batch holding as many of them as divide it, or `"refuse"`.
    """

    invariance: str = field(default="none", metadata={"help": "Invariance over environments, e.g. `balanced+irmv1`."})
    environment_column: str = field(default="environment", metadata={"help": "Column that names the environment."})
    invariance_weight: float | None = option(InvarianceConfig, "weight")
    invariance_warmup_steps: int | None = option(InvarianceConfig, "warmup_steps")
    irm_form: str = option(InvarianceConfig, "irm_form")
    crowded_environments: str = option(InvarianceConfig, "crowded")

    @property
    def invariance_method(self) -> Method:
        """What `invariance` names."""
        return read_method(self.invariance)

    @property
    def penalty_weight(self) -> float:
        """Weight of the penalty once it is on; 0 without one."""
        penalty = self.invariance_method.penalty
        if penalty is None:
            return 0.0
        return DEFAULT_WEIGHTS.get(penalty, 1.0) if self.invariance_weight is None else self.invariance_weight

    def penalty_start(self, max_steps: int) -> int:
        """The step, of `max_steps` in all, before which the penalty is off."""
        return -(-max_steps // 10) if self.invariance_warmup_steps is None else self.invariance_warmup_steps

    def check_invariance(self) -> None:
        """
        Raises:
            ValueError: for a setting outside its range.
        """
        penalty = self.invariance_method.penalty
        if penalty is not None:
            load_regulariser(penalty)
        check_options(
            self,
            InvarianceConfig,
            "irm_form",
            crowded_environments="crowded",
            invariance_weight="weight",
            invariance_warmup_steps="warmup_steps",
        )


@dataclass(frozen=True)
class EnvironmentBatch:
    """
    The pairs of all processes in order of their ranks, ties left out.

    Args:
        margins (`torch.Tensor` of shape `(num_pairs,)`):
            d = V+ - V-, float32; only those of this process carry a gradient.
        environments (`torch.Tensor` of shape `(num_pairs,)`):
            Number of each pair's environment.
    """

    margins: torch.Tensor
    environments: torch.Tensor

    @classmethod
    def gather(
        cls,
        accelerator: Accelerator,
        margins: torch.Tensor,
        environments: torch.Tensor,
        weights: torch.Tensor | None = None,
    ) -> "EnvironmentBatch":
        """
        Args:
            accelerator ([`~accelerate.Accelerator`]):
                Of the trainer.
            margins, environments (`torch.Tensor` of shape `(num_own_pairs,)`):
                Of this process; as many on each.
            weights (`torch.Tensor` of shape `(num_own_pairs,)`, *optional*):
                0 for a tie, else 1.
        """
        margins = margins.float()
        weights = torch.ones_like(margins) if weights is None else weights
        is_strict = accelerator.gather(weights) > 0
        everyone = _gather_with_own_gradient(accelerator, margins)
        return cls(everyone[is_strict], accelerator.gather(environments)[is_strict])


def _gather_with_own_gradient(accelerator: Accelerator, own: torch.Tensor) -> torch.Tensor:
    """The values of all processes; those of this one are its own tensor, so that gradients flow back into it."""
    if accelerator.num_processes == 1:
        return own
    everyone = accelerator.gather(own.detach())
    start = accelerator.process_index * len(own)
    return torch.cat([everyone[:start], own, everyone[start + len(own) :]])


class Objective(NamedTuple):
    """
    Args:
        loss (`torch.Tensor`):
            Scalar, of this process, to be differentiated.
        figures (`dict[str, float]`):
            For the log, of all processes: `risk/ENVIRONMENT` (the mean plain loss of each environment that is present),
            `num_environments`, and with a penalty `penalty` (unweighted) and `penalty_weight`.
    """

    loss: torch.Tensor
    figures: dict[str, float]


@dataclass(frozen=True)
class Invariance:
    """
    The objective over a batch's environments.

    Args:
        names (`tuple[str, ...]`):
            Of the environments, by number.
        regulariser ([`~pvg_hf.trainers.reward.invariance.Regulariser`], *optional*):
            The penalty; `None` where batches are balanced and no more.
        weight (`float`):
            Of the penalty.
    """

    names: tuple[str, ...]
    regulariser: Regulariser | None
    weight: float

    @classmethod
    def of(cls, args: InvarianceArguments, names: Sequence[str]) -> "Invariance | None":
        """`None` where nothing is asked for, or there are fewer than two environments to tell apart."""
        if args.invariance == "none" or len(names) < 2:
            return None
        penalty = args.invariance_method.penalty
        regulariser = None if penalty is None else load_regulariser(penalty, args.irm_form)
        return cls(tuple(names), regulariser, args.penalty_weight)

    def objective(
        self, batch: EnvironmentBatch, centring: torch.Tensor, *, is_on: bool, num_processes: int
    ) -> Objective:
        """
        The mean of the environments' risks with the penalty and the centring, divided by the penalty's weight if that is
        above 1.

        Args:
            batch ([`EnvironmentBatch`]):
                Of all processes.
            centring (`torch.Tensor`):
                Scalar, of this process.
            is_on (`bool`):
                Whether the penalty is switched on.
            num_processes (`int`):
                That share the batch.
        """
        if not len(batch.margins):
            return Objective(centring, {})
        weight = self.weight if is_on else 0.0
        risk = invariant_risk(batch.margins, batch.environments, self.regulariser or _zero_penalty, weight)
        figures = {f"risk/{self.names[number]}": value for number, value in risk.risks.items()}
        figures["num_environments"] = float(len(risk.risks))
        if self.regulariser is not None:
            figures |= {"penalty": risk.penalty.item(), "penalty_weight": weight}
        return Objective((_sum_gradients(risk.loss, num_processes) + centring) / max(weight, 1.0), figures)


def _zero_penalty(margins: torch.Tensor, environments: torch.Tensor) -> torch.Tensor:
    return margins.new_zeros(())


def _sum_gradients(loss: torch.Tensor, num_processes: int) -> torch.Tensor:
    """
    A loss over the pairs of all processes, of which each differentiates its own part only: its value as it is, and its
    gradient times their number, since data parallelism takes the mean of gradients where their sum is meant.
    """
    return loss.detach() + num_processes * (loss - loss.detach())


class ResetMomentsCallback(TrainerCallback):
    """
    Forgets the optimiser's moments where a penalty is switched on: they are those of another loss.

    Args:
        invariance ([`~pvg_hf.trainers.reward.invariance.InvarianceArguments`]):
            They know the step.
    """

    def __init__(self, invariance: InvarianceArguments):
        self.invariance = invariance

    def on_step_begin(self, args, state, control, optimizer=None, **kwargs):
        if 0 < state.global_step == self.invariance.penalty_start(state.max_steps):
            optimizer.state.clear()
