"""The leader's true gradient: the follower's last steps, repeated as a differentiable function of the leader."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.func import grad
from torch.optim import Optimizer

Params = dict[str, torch.Tensor]

_TINY = 1e-30  # keeps the derivative of a root finite at 0


@dataclass(frozen=True)
class StepRule:
    """
    Optimiser of a repeated step, as AdamW or SGD of torch.

    Args:
        learning_rate, weight_decay: By parameter.
        max_grad_norm: Norm to which the gradients are clipped; 0 for no limit.
    """

    kind: str
    learning_rate: dict[str, float]
    weight_decay: dict[str, float]
    max_grad_norm: float
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    def step(
        self, params: Params, grads: Params, moments: dict[str, Params], number: int
    ) -> tuple[Params, dict[str, Params]]:
        """
        Take a step without changing anything in place.

        Args:
            moments: `exp_avg` and `exp_avg_sq` of AdamW; empty for SGD.
        """
        grads = self._clipped(grads)
        if self.kind == "sgd":
            decayed = {name: grads[name] + self.weight_decay[name] * params[name] for name in params}
            return {name: params[name] - self.learning_rate[name] * decayed[name] for name in params}, moments
        first, second = self.betas
        mean = {name: first * moments["exp_avg"][name] + (1 - first) * grads[name] for name in params}
        square = {name: second * moments["exp_avg_sq"][name] + (1 - second) * grads[name] ** 2 for name in params}
        corrections = 1 - first**number, (1 - second**number) ** 0.5
        updated = {}
        for name, value in params.items():
            rate = self.learning_rate[name]
            size = (square[name] + _TINY).sqrt() / corrections[1] + self.eps
            updated[name] = value * (1 - rate * self.weight_decay[name]) - rate / corrections[0] * mean[name] / size
        return updated, {"exp_avg": mean, "exp_avg_sq": square}

    def _clipped(self, grads: Params) -> Params:
        if not self.max_grad_norm:
            return grads
        norm = (sum(value.square().sum() for value in grads.values()) + _TINY).sqrt()
        factor = (self.max_grad_norm / (norm + 1e-6)).clamp(max=1.0)  # as torch.nn.utils.clip_grad_norm_
        return {name: value * factor for name, value in grads.items()}


@dataclass
class Snapshot:
    """
    State of the follower before a step, and the step's batch.

    Args:
        number: Number of the step, from 1.
        batch: Columns of the problems.
    """

    params: Params
    moments: dict[str, Params]
    number: int
    batch: dict[str, torch.Tensor]
    rule: StepRule


def repeat_steps(
    follower_loss: Callable[[Params, Mapping[str, torch.Tensor]], torch.Tensor], snapshots: Sequence[Snapshot]
) -> Params:
    """
    Repeat the follower's last steps from the first snapshot on.

    Args:
        follower_loss: `(follower_params, batch) -> loss`, which also depends on the leader's parameters.
        snapshots: The last steps in their order; parameters and moments of the first one are used.
    Returns: parameters after the steps, as a differentiable function of the leader's parameters.
    """
    params, moments = snapshots[0].params, snapshots[0].moments
    for snapshot in snapshots:
        grads = grad(follower_loss)(params, snapshot.batch)
        params, moments = snapshot.rule.step(params, grads, moments, snapshot.number)
    return params


def take_snapshot(
    player: nn.Module, optimizer: Optimizer, batch: Mapping[str, torch.Tensor], max_grad_norm: float
) -> Snapshot:
    """
    Record a player and its optimiser before a step.

    Args:
        optimizer: AdamW or SGD (without momentum) with the follower's parameters in some of its groups.
        batch: The step's batch.
        max_grad_norm: Norm to which the step clips the gradients; 0 for no limit.
    """
    trained = {name: parameter for name, parameter in player.named_parameters() if parameter.requires_grad}
    groups = {id(parameter): group for group in optimizer.param_groups for parameter in group["params"]}
    of_name = {name: groups[id(parameter)] for name, parameter in trained.items()}
    first: dict[str, Any] = next(iter(of_name.values()))
    is_sgd = "betas" not in first
    states = {name: optimizer.state.get(parameter, {}) for name, parameter in trained.items()}
    moments = {} if is_sgd else {key: _moments(key, trained, states) for key in ("exp_avg", "exp_avg_sq")}
    rule = StepRule(
        "sgd" if is_sgd else "adamw",
        {name: float(group["lr"]) for name, group in of_name.items()},
        {name: group["weight_decay"] for name, group in of_name.items()},
        max_grad_norm,
        **({} if is_sgd else {"betas": tuple(first["betas"]), "eps": first["eps"]}),
    )
    taken = next(iter(states.values())).get("step", 0)
    params = {name: parameter.detach().clone() for name, parameter in trained.items()}
    return Snapshot(params, moments, int(taken) + 1, dict(batch), rule)


def _moments(key: str, trained: Mapping[str, nn.Parameter], states: Mapping[str, dict[str, Any]]) -> Params:
    return {
        name: states[name][key].clone() if key in states[name] else torch.zeros_like(parameter)
        for name, parameter in trained.items()
    }
