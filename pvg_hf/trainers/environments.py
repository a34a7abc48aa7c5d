"""Invariance over environments as the verifier's trainer applies it: over all processes, from a step on, with its log."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from accelerate import Accelerator
from transformers import TrainerCallback

from pvg_hf.trainers.invariance import Regulariser, invariant_risk, load_regulariser
from pvg_hf.trainers.invariance_args import InvarianceArguments


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
        regulariser ([`~pvg_hf.trainers.invariance.Regulariser`], *optional*):
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
        risk = invariant_risk(batch.margins, batch.environments, self.regulariser or _no_penalty, weight)
        figures = {f"risk/{self.names[number]}": value for number, value in risk.risks.items()}
        figures["num_environments"] = float(len(risk.risks))
        if self.regulariser is not None:
            figures |= {"penalty": risk.penalty.item(), "penalty_weight": weight}
        return Objective((_with_summed_gradient(risk.loss, num_processes) + centring) / max(weight, 1.0), figures)


def _no_penalty(margins: torch.Tensor, environments: torch.Tensor) -> torch.Tensor:
    return margins.new_zeros(())


def _with_summed_gradient(loss: torch.Tensor, num_processes: int) -> torch.Tensor:
    """
    A loss over the pairs of all processes, of which each differentiates its own part only: its value as it is, and its
    gradient times their number, since data parallelism takes the mean of gradients where their sum is meant.
    """
    return loss.detach() + num_processes * (loss - loss.detach())


class ResetMomentsCallback(TrainerCallback):
    """
    Forgets the optimiser's moments where a penalty is switched on: they are those of another loss.

    Args:
        invariance ([`~pvg_hf.trainers.invariance_args.InvarianceArguments`]):
            They know the step.
    """

    def __init__(self, invariance: InvarianceArguments):
        self.invariance = invariance

    def on_step_begin(self, args, state, control, optimizer=None, **kwargs):
        if 0 < state.global_step == self.invariance.penalty_start(state.max_steps):
            optimizer.state.clear()
