"""
Penalties on how the Bradley-Terry loss differs over environments, as pure functions of a global batch: margins
d = V+ - V- of its pairs, of shape `(num_pairs,)`, and the number of each pair's environment.

V-REx is after Krueger et al. 2021 (2003.00688), IRMv1 after Arjovsky et al. 2019 (1907.02893).
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F

from pvg_hf.extensions import load_function, running
from pvg_hf.suggestions import suggest

Regulariser = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""`(margins, environments) -> penalty`, a scalar that can be differentiated; at least two environments are present."""

INTERFACE = "(margins, environments) -> penalty"
METHODS = ("none", "balanced", "vrex", "irmv1", "balanced+vrex", "balanced+irmv1")
IRM_FORMS = ("plain", "two_halves")
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
    risks = torch.stack([F.softplus(-part).mean() for part in _by_environment(margins, environments)])
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
    risks = torch.stack([F.softplus(-part).mean() for part in _by_environment(margins, environments)])
    return risks.var(correction=0)


def irm_v1(margins: torch.Tensor, environments: torch.Tensor) -> torch.Tensor:
    """
    The mean over environments of the squared derivative of R_e(w V) with respect to the scale w, at w = 1. For
    Bradley-Terry it is mean(-d sigmoid(-d)), so that no second backward pass is needed. With few pairs of an environment
    it is too high in the mean: by the variance of the derivative's estimate.
    """
    derivatives = [_scale_derivatives(part).mean() for part in _by_environment(margins, environments)]
    return torch.stack(derivatives).square().mean()


def irm_v1_two_halves(margins: torch.Tensor, environments: torch.Tensor) -> torch.Tensor:
    """
    [`irm_v1`] without its bias: the derivatives of an environment's first, third, ... pairs and of its second, fourth,
    ... pairs are multiplied in place of squaring one, so that it may be negative. An environment with a single pair is
    left out.
    """
    derivatives = [_scale_derivatives(part) for part in _by_environment(margins, environments) if len(part) > 1]
    if not derivatives:
        return margins.new_zeros(())
    return torch.stack([part[::2].mean() * part[1::2].mean() for part in derivatives]).mean()


def _scale_derivatives(margins: torch.Tensor) -> torch.Tensor:
    """d/dw softplus(-w d) at w = 1."""
    return -margins * torch.sigmoid(-margins)


def _by_environment(values: torch.Tensor, environments: torch.Tensor) -> list[torch.Tensor]:
    """The values of each environment that is present, in the order of their numbers."""
    return [values[environments == number] for number in environments.unique()]
