"""Invariance across environments: penalties, the objective over all processes, and balanced batches."""

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

from pvg_hf.config.player_sections import PENALTY_WEIGHTS, InvarianceConfig
from pvg_hf.core.extensions import ExtensionError, load_function, running, suggest
from pvg_hf.core.seeding import derive_rng
from pvg_hf.trainers.common.options import check_options, option


def environments_per_batch(num_environments: int, batch_size: int) -> int:
    """Return the largest number of environments of which a batch can hold equally many rows: a divisor of its size."""
    # 1 divides every size, so there is always a result.
    return max(number for number in range(1, num_environments + 1) if batch_size % number == 0)


def check_batch(num_environments: int, batch_size: int, *, is_balanced: bool, crowded: str) -> None:
    """
    Check that a batch can hold the environments.

    Args:
        batch_size: Pairs per batch, over all processes.
        is_balanced: Whether every batch must hold equally many pairs of each environment.
        crowded: What to do if a batch cannot hold all environments: `"refuse"` or `"cycle"`.
    Raises `ValueError` if a batch cannot hold all environments and may not cycle through them, or cannot hold two of
        them.
    """
    num_held = environments_per_batch(num_environments, batch_size) if is_balanced else batch_size
    where = f"A batch of {batch_size} pairs, over all processes,"
    if is_balanced and num_held == 1 < num_environments:
        raise ValueError(
            f"{where} cannot hold equally many pairs of several of the {num_environments} environments: use an even "
            "batch size."
        )
    if num_held < num_environments and crowded == "refuse":
        evenly = " evenly" if is_balanced else ""
        raise ValueError(
            f"{where} cannot hold {num_environments} environments{evenly}. Use a multiple of {num_environments} pairs,"
            " or let batches cycle through the environments (`cycle`)."
        )


class BalancedSampler(Sampler[int]):
    """
    Orders rows such that each block of `batch_size` holds equally many rows of each environment.

    If a block cannot hold all environments, it holds as many as divide it, in turns. The number of batches per epoch
    follows from the number of rows. Rows of a small environment are repeated within an epoch, but only after all of
    them were used.

    Args:
        seed: Seed of the order, which differs between epochs.
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
        """Set the epoch; the dataloader calls this before each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.num_batches * self.batch_size

    def __iter__(self) -> Iterator[int]:
        # One endless stream of rows per environment.
        streams = [self._stream(number) for number in range(len(self.members))]
        for batch in range(self.num_batches):
            held = [(batch * self.num_held + place) % len(streams) for place in range(self.num_held)]
            for _ in range(self.batch_size // self.num_held):
                yield from (next(streams[number]) for number in held)

    def _stream(self, number: int) -> Iterator[int]:
        """Yield the rows of an environment endlessly, in a new order each time."""
        rng = derive_rng(self.seed, "balanced", self.epoch, number)
        while True:
            yield from rng.permutation(self.members[number]).tolist()


Regulariser = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Function `(margins, environments) -> penalty`, a differentiable scalar; at least two environments are present."""

INTERFACE = "(margins, environments) -> penalty"

METHODS = ("none", "balanced", "vrex", "irmv1", "balanced+vrex", "balanced+irmv1")

_BALANCED = "balanced"


class Method(NamedTuple):
    """
    A value of the argument `invariance`, parsed.

    Args:
        is_balanced: Whether every batch holds equally many pairs of each environment.
        penalty: `"vrex"`, `"irmv1"` or `package.module:Name`; `None` for no penalty.
    """

    is_balanced: bool
    penalty: str | None


class InvariantRisk(NamedTuple):
    """
    Risk of a batch over its environments.

    Args:
        loss: Scalar, the mean of the environments' risks plus the weighted penalty.
        penalty: Scalar, unweighted; 0 if fewer than two environments are present.
        risks: Mean loss of each environment that is present.
    """

    loss: torch.Tensor
    penalty: torch.Tensor
    risks: dict[int, float]


def read_method(name: str) -> Method:
    """
    Parse a value of the argument `invariance`.

    Raises `ValueError` if `name` is not in `METHODS` and does not name a custom penalty.
    """
    if name == "none":
        return Method(False, None)
    first, plus, rest = name.partition("+")
    is_balanced = first == _BALANCED
    penalty = rest if is_balanced and plus else name
    if name == _BALANCED:
        return Method(True, None)
    if penalty not in PENALTY_WEIGHTS and ":" not in penalty:
        raise ValueError(
            f"Unknown invariance `{name}`. {suggest(name, METHODS)} Name a custom penalty as `package.module:Name`, "
            "also after `balanced+`."
        )
    return Method(is_balanced, penalty)


def load_regulariser(penalty: str, irm_form: str = "plain") -> Regulariser:
    """
    Return the penalty function of a name.

    Args:
        penalty: `"vrex"`, `"irmv1"`, or `package.module:Name` of a [`Regulariser`].
        irm_form: `"plain"` or `"two_halves"`, see [`irm_v1`] and [`irm_v1_two_halves`].
    Raises `ValueError` if `package.module:Name` is not a function. Errors of a custom penalty are raised as
        `ExtensionError` when it is called.
    """
    if penalty == "vrex":
        return v_rex
    if penalty == "irmv1":
        return irm_v1 if irm_form == "plain" else irm_v1_two_halves
    return partial(_call_custom, load_function(penalty, "invariance penalty", INTERFACE), penalty)


def _call_custom(regulariser: Regulariser, name: str, *inputs: torch.Tensor) -> torch.Tensor:
    with running(f"The invariance penalty `{name}`"):
        return regulariser(*inputs)


def invariant_risk(
    margins: torch.Tensor, environments: torch.Tensor, regulariser: Regulariser, weight: float
) -> InvariantRisk:
    """
    Return the mean of the environments' risks R_e, i.e. the mean plain Bradley-Terry loss on their pairs, plus a
    penalty.

    Args:
        margins: shape `(num_pairs,)`. d = V+ - V- of the pairs of all processes; at least one.
        environments: shape `(num_pairs,)`. Number of each pair's environment.
        regulariser: The penalty. It is skipped if the batch has fewer than two environments.
        weight: Weight of the penalty, at least 0.
    Raises `ExtensionError` if the regulariser does not return a scalar.
    """
    risks = torch.stack([F.softplus(-part).mean() for part in _split_by_environment(margins, environments)])
    penalty = margins.new_zeros(())
    if len(risks) > 1:
        penalty = regulariser(margins, environments)
        if not isinstance(penalty, torch.Tensor) or penalty.shape != ():
            raise ExtensionError(f"An invariance penalty must be a scalar tensor; got {penalty!r:.80}.")
    loss = risks.mean() + weight * penalty if weight > 0 else risks.mean()
    numbers = environments.unique().tolist()
    return InvariantRisk(loss, penalty, dict(zip(numbers, risks.tolist(), strict=True)))


def v_rex(margins: torch.Tensor, environments: torch.Tensor) -> torch.Tensor:
    """Population variance of the environments' risks (V-REx)."""
    risks = torch.stack([F.softplus(-part).mean() for part in _split_by_environment(margins, environments)])
    return risks.var(correction=0)


def irm_v1(margins: torch.Tensor, environments: torch.Tensor) -> torch.Tensor:
    """
    Mean over environments of the squared derivative of R_e(w V) with respect to the scale w, at w = 1 (IRMv1).

    For Bradley-Terry the derivative is mean(-d sigmoid(-d)), so that no second backward pass is needed. The estimate
    is biased upwards by the variance of the estimated derivative, i.e. for environments with few pairs.
    """
    derivatives = [_scale_derivatives(part).mean() for part in _split_by_environment(margins, environments)]
    return torch.stack(derivatives).square().mean()


def irm_v1_two_halves(margins: torch.Tensor, environments: torch.Tensor) -> torch.Tensor:
    """
    Unbiased form of [`irm_v1`].

    It multiplies the derivatives on two halves of an environment's pairs (the first, third, ... and the second,
    fourth, ...) instead of squaring one, so that it may be negative. An environment with a single pair is ignored.
    """
    derivatives = [_scale_derivatives(part) for part in _split_by_environment(margins, environments) if len(part) > 1]
    if not derivatives:
        return margins.new_zeros(())
    return torch.stack([part[::2].mean() * part[1::2].mean() for part in derivatives]).mean()


def _scale_derivatives(margins: torch.Tensor) -> torch.Tensor:
    """Return d/dw softplus(-w d) at w = 1."""
    return -margins * torch.sigmoid(-margins)


def _split_by_environment(values: torch.Tensor, environments: torch.Tensor) -> list[torch.Tensor]:
    """Return the values of each environment that is present, in the order of their numbers."""
    return [values[environments == number] for number in environments.unique()]


@dataclass
class InvarianceArguments:
    """
    The part of [`NoisyRewardConfig`] about invariance.

    Args:
        invariance: `"none"`, `"balanced"` (every batch holds equally many pairs of each environment), `"vrex"`,
            `"irmv1"`, `"balanced+vrex"`, `"balanced+irmv1"`, or a custom
            [`~pvg_hf.trainers.reward.invariance.Regulariser`] as `package.module:Name` or
            `balanced+package.module:Name`.
        environment_column: Column of the training set with the name of each pair's environment.
        invariance_weight: Weight of the penalty, at least 0; by default 10 for V-REx, 100 for IRMv1 (as in DomainBed)
            and 1 for a custom penalty. If it is above 1, the whole loss is divided by it.
        invariance_warmup_steps: Steps before the penalty is switched on and the optimiser's moments are reset; a tenth
            of all steps by default.
        irm_form: Form of IRMv1: `"plain"`, or the unbiased `"two_halves"`.
        crowded_environments: What to do if a batch, over all processes, cannot hold equally many pairs of all
            environments: `"cycle"` through them, each batch holding as many of them as divide it, or `"refuse"`.
    """

    invariance: str = field(
        default="none", metadata={"help": "Invariance across environments, e.g. `balanced+irmv1`."}
    )
    environment_column: str = field(default="environment", metadata={"help": "Column that names the environment."})
    invariance_weight: float | None = option(InvarianceConfig, "weight")
    invariance_warmup_steps: int | None = option(InvarianceConfig, "warmup_steps")
    irm_form: str = option(InvarianceConfig, "irm_form")
    crowded_environments: str = option(InvarianceConfig, "crowded")

    @property
    def invariance_method(self) -> Method:
        """The parsed argument `invariance`."""
        return read_method(self.invariance)

    @property
    def penalty_weight(self) -> float:
        """Weight of the penalty while it is on; 0 without a penalty."""
        penalty = self.invariance_method.penalty
        if penalty is None:
            return 0.0
        return PENALTY_WEIGHTS.get(penalty, 1.0) if self.invariance_weight is None else self.invariance_weight

    def penalty_start(self, max_steps: int) -> int:
        """Return the step at which the penalty is switched on, given the total number of steps."""
        return -(-max_steps // 10) if self.invariance_warmup_steps is None else self.invariance_warmup_steps

    def check_invariance(self) -> None:
        """Check the arguments about invariance. Raises `ValueError` for a setting outside its range."""
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


def gather_strict_pairs(
    accelerator: Accelerator, margins: torch.Tensor, environments: torch.Tensor, weights: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Gather the pairs of all processes in order of their ranks, without ties.

    Args:
        margins: shape `(num_own_pairs,)`. d = V+ - V- of this process; every process must have the same number.
        environments: shape `(num_own_pairs,)`. Number of each pair's environment.
        weights: shape `(num_own_pairs,)`. 0 for a tie, else 1.

    Returns:
        Margins in float32, of which only those of this process have a gradient, and environments, each of shape
        `(num_pairs,)`.
    """
    margins = margins.float()
    weights = torch.ones_like(margins) if weights is None else weights
    is_strict = accelerator.gather(weights) > 0
    everyone = _gather_with_own_gradient(accelerator, margins)
    return everyone[is_strict], accelerator.gather(environments)[is_strict]


def _gather_with_own_gradient(accelerator: Accelerator, own: torch.Tensor) -> torch.Tensor:
    """Gather the values of all processes; this process's part is its own tensor, so that it has a gradient."""
    if accelerator.num_processes == 1:
        return own
    # `gather` has no gradient, so this process's own values are put back in their place.
    everyone = accelerator.gather(own.detach())
    start = accelerator.process_index * len(own)
    return torch.cat([everyone[:start], own, everyone[start + len(own) :]])


@dataclass(frozen=True)
class Invariance:
    """The training objective over a batch's environments."""

    names: tuple[str, ...]
    regulariser: Regulariser | None
    weight: float

    @classmethod
    def of(cls, args: InvarianceArguments, names: Sequence[str]) -> "Invariance | None":
        """Make the objective; `None` if no invariance is requested or there are fewer than two environments."""
        if args.invariance == "none" or len(names) < 2:
            return None
        penalty = args.invariance_method.penalty
        regulariser = None if penalty is None else load_regulariser(penalty, args.irm_form)
        return cls(tuple(names), regulariser, args.penalty_weight)

    def objective(
        self,
        margins: torch.Tensor,
        environments: torch.Tensor,
        centring: torch.Tensor,
        *,
        is_on: bool,
        num_processes: int,
    ) -> tuple[torch.Tensor, dict[str, float]]:
        """
        Return the mean of the environments' risks plus penalty and centring, divided by the penalty's weight if above
        1; and its metrics.

        Args:
            margins, environments: shape `(num_pairs,)`, from [`gather_strict_pairs`].
            centring: Scalar of this process.

        Returns:
            The loss of this process, a scalar to be differentiated, and metrics over all processes: `risk/ENVIRONMENT`
            (the mean plain loss of each environment that is present), `num_environments`, and with a penalty `penalty`
            (unweighted) and `penalty_weight`.
        """
        if not len(margins):
            return centring, {}
        # Before it is switched on, the penalty is computed and logged but has no weight.
        weight = self.weight if is_on else 0.0
        risk = invariant_risk(margins, environments, self.regulariser or _zero_penalty, weight)
        figures = {f"risk/{self.names[number]}": value for number, value in risk.risks.items()}
        figures["num_environments"] = float(len(risk.risks))
        if self.regulariser is not None:
            figures |= {"penalty": risk.penalty.item(), "penalty_weight": weight}
        # Dividing by a large weight keeps the size of the gradients, and so the learning rate, comparable.
        return (_sum_gradients(risk.loss, num_processes) + centring) / max(weight, 1.0), figures


def _zero_penalty(margins: torch.Tensor, environments: torch.Tensor) -> torch.Tensor:
    return margins.new_zeros(())


def _sum_gradients(loss: torch.Tensor, num_processes: int) -> torch.Tensor:
    """
    Scale the gradient of a loss over the pairs of all processes by the number of processes, keeping its value.

    Each process differentiates its own pairs only. Data parallelism takes the mean of the gradients, but their sum is
    needed.
    """
    return loss.detach() + num_processes * (loss - loss.detach())


class ResetMomentsCallback(TrainerCallback):
    """Resets the optimiser's moments when a penalty is switched on: they belong to another loss."""

    def __init__(self, invariance: InvarianceArguments):
        self.invariance = invariance

    def on_step_begin(self, args, state, control, optimizer=None, **kwargs):
        if 0 < state.global_step == self.invariance.penalty_start(state.max_steps):
            optimizer.state.clear()
