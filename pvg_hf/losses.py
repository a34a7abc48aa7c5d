"""
Verifier losses: Bradley-Terry on pairs and cross-entropy on single solutions, plain or corrected for label noise.
"""

import math
from collections.abc import Collection
from typing import Literal, get_args

import torch
import torch.nn.functional as F

from pvg_hf.config.noise_section import check_rates
from pvg_hf.config.player_sections import PairCorrection
from pvg_hf.core.extensions import suggest

LabelCorrection = Literal["none", "forward", "backward"]
UNBOUNDED_CORRECTIONS = frozenset({"backward", "exact"})  # their losses are unbounded below, so they need centring


def bradley_terry(
    chosen: torch.Tensor,
    rejected: torch.Tensor,
    *,
    flip_rate: float = 0.0,
    correction: PairCorrection = "none",
    center: float = 0.0,
    weights: torch.Tensor | None = None,
) -> torch.Tensor:
    """
    Bradley-Terry loss on pairs of solutions to one problem (Kirchner et al. 2024), optionally with a correction for
    pairs that label noise has reversed, and with centring.

    With d = chosen - rejected, e = `flip_rate` and sp = softplus, the loss of a pair is

    - `"none"`: sp(-d)
    - `"smoothing"` (conservative DPO's): (1 - e) sp(-d) + e sp(d); biased, least at sigmoid(d) = 1 - e
    - `"forward"`: -log(e + (1 - 2e) sigmoid(d)); bounded
    - `"backward"` (robust DPO's): [(1 - e) sp(-d) - e sp(d)] / (1 - 2e); unbiased for strict pairs, unbounded below

    Args:
        chosen: shape `(num_pairs,)`. Scores of the solutions labelled correct, unbounded. Half precision is converted
            to float32.
        rejected: shape `(num_pairs,)`. Scores of the solutions labelled incorrect.
        flip_rate: P(a pair is reversed), in [0, .5). This is not the rate at which labels flip: see
            [`~pvg_hf.noise.pair_flip_rate`]. Not used by `"none"`.
        correction: One of the corrections above.
        center: lambda >= 0 of the centring term: lambda times the mean of V^2 over the 2 * num_pairs single solutions
            (Kirchner et al. 2024). TRL's `center_rewards_coefficient` differs: it squares the sum of a pair's scores.
        weights: shape `(num_pairs,)`. Weights in [0, 1]; a tied pair gets 0. The weighted losses of the pairs are
            summed and divided by the sum of the weights (the result is 0 if all weights are 0). The weights do not
            affect the centring.
    Returns: scalar.
    Raises `ValueError` if there is no pair, the shapes differ, a setting is outside its range, or `"backward"` is used
        without centring.
    """
    _check_choice(correction, get_args(PairCorrection))
    _check_center(center, correction)
    if not 0 <= flip_rate < 0.5:
        raise ValueError(
            f"`flip_rate` is {flip_rate}; it must lie in [0, 0.5), or a pair no longer indicates the truth."
        )
    _check_shapes(chosen=chosen, rejected=rejected)
    chosen, rejected = _upcast(chosen), _upcast(rejected)
    losses = _pair_losses(chosen - rejected, flip_rate, correction)
    return _weighted_mean(losses, weights) + center * torch.cat([chosen, rejected]).square().mean()


def pointwise_cross_entropy(
    scores: torch.Tensor,
    labels: torch.Tensor,
    *,
    rho0: float = 0.0,
    rho1: float = 0.0,
    correction: LabelCorrection = "none",
    center: float = 0.0,
) -> torch.Tensor:
    """
    Cross-entropy of labels against sigmoid(score), optionally with a correction for label noise, and with centring.

    With p = sigmoid(V), D = 1 - rho0 - rho1 and CE(y, p) = -y log p - (1 - y) log(1 - p), the loss of a solution is

    - `"none"`: CE(y, p)
    - `"forward"`: CE(y, (1 - rho1) p + rho0 (1 - p))
    - `"backward"`: CE(u, p) with u = (y - rho0) / D, which is [(1 - rho0) l1 - rho1 l0] / D at y = 1 and
      [(1 - rho1) l0 - rho0 l1] / D at y = 0, l1 and l0 being the losses under either label; unbiased, unbounded below

    Args:
        scores: shape `(num_solutions,)`. Verifier scores V, unbounded. Half precision is converted to float32.
        labels: shape `(num_solutions,)`. Noisy labels y in [0, 1]; soft ones are allowed.
        rho0: P(label 1 | truth 0), in [0, 1). Not used by `"none"`.
        rho1: P(label 0 | truth 1), in [0, 1), `rho0 + rho1 < 1`. Not used by `"none"`.
        correction: One of the corrections above.
        center: lambda >= 0 of the centring term, lambda times the mean of V^2.
    Returns: scalar.
    Raises `ValueError` if there is no solution, the shapes differ, a label or a setting is outside its range, or
        `"backward"` is used without centring.
    """
    _check_choice(correction, get_args(LabelCorrection))
    _check_center(center, correction)
    check_rates(rho0, rho1)
    _check_shapes(scores=scores, labels=labels)
    _check_unit_interval(labels=labels)
    scores = _upcast(scores)
    losses = label_losses(scores, labels.to(scores), rho0, rho1, correction)
    return losses.mean() + center * scores.square().mean()


def exact_pairwise(
    first: torch.Tensor, second: torch.Tensor, labels: torch.Tensor, *, rho0: float, rho1: float, center: float
) -> torch.Tensor:
    """
    Bradley-Terry loss with the exact correction for independent label noise.

    With u = (y - rho0) / (1 - rho0 - rho1), whose mean over the noise is the clean label, the loss of an unordered
    pair is

        u_i (1 - u_j) sp(-(V_i - V_j)) + u_j (1 - u_i) sp(V_i - V_j)

    If the true labels of the pair differ, its mean over the noise is sp(-d), where d is the correct solution's score
    minus the other's; for a tie it is 0. This requires that pairs are chosen independently of the noisy labels, so
    that a batch also contains pairs with equal labels, and that the two labels of a pair flip independently of each
    other and of the scores. Single terms are negative and unbounded.

    Args:
        first, second: shape `(num_pairs,)`. Scores V_i and V_j of two solutions to a problem, unbounded. Half
            precision is converted to float32.
        labels: shape `(num_pairs, 2)`. Noisy labels y of (first, second) in [0, 1].
        rho0: P(label 1 | truth 0), in [0, 1).
        rho1: P(label 0 | truth 1), in [0, 1), `rho0 + rho1 < 1`.
        center: lambda > 0 of the centring term: lambda times the mean of V^2 over the 2 * num_pairs single solutions.
    Returns: scalar, the mean over all pairs, ties included.
    Raises `ValueError` if there is no pair, the shapes differ, a label or a setting is outside its range, or there is
        no centring.
    """
    _check_center(center, "exact")
    check_rates(rho0, rho1)
    _check_shapes(first=first, second=second)
    if labels.shape != (len(first), 2):
        raise ValueError(f"`labels` has shape {tuple(labels.shape)}; for {len(first)} pairs it is {(len(first), 2)}.")
    _check_unit_interval(labels=labels)
    first, second = _upcast(first), _upcast(second)
    u_first, u_second = ((labels.to(first) - rho0) / (1 - rho0 - rho1)).unbind(dim=1)
    margins = first - second
    losses = u_first * (1 - u_second) * F.softplus(-margins) + u_second * (1 - u_first) * F.softplus(margins)
    return losses.mean() + center * torch.cat([first, second]).square().mean()


def _pair_losses(margins: torch.Tensor, flip_rate: float, correction: PairCorrection) -> torch.Tensor:
    if correction == "forward":
        return -_log_mixture(margins, 1 - flip_rate, flip_rate)
    losses = F.softplus(-margins)
    if correction == "smoothing":
        return losses + flip_rate * margins  # since sp(d) = sp(-d) + d
    if correction == "backward":  # sp(d) = sp(-d) + d again
        return losses - flip_rate / (1 - 2 * flip_rate) * margins
    return losses


def label_losses(
    scores: torch.Tensor, labels: torch.Tensor, rho0: float, rho1: float, correction: LabelCorrection
) -> torch.Tensor:
    """
    Return the loss of each solution, as in [`pointwise_cross_entropy`], without its checks: `torch.func.vmap` can map
    it.

    Args:
        scores, labels (`torch.Tensor` of shape `(num_solutions,)`):
            Scores, and labels of the same floating type.
        rho0, rho1, correction:
            As for [`pointwise_cross_entropy`].

    Returns:
        `torch.Tensor` of shape `(num_solutions,)`.
    """
    if correction == "forward":
        log_one = _log_mixture(scores, 1 - rho1, rho0)
        log_zero = _log_mixture(scores, rho1, 1 - rho0)
        return -labels * log_one - (1 - labels) * log_zero
    if correction == "backward":
        labels = (labels - rho0) / (1 - rho0 - rho1)
    return labels * F.softplus(-scores) + (1 - labels) * F.softplus(scores)


def _log_mixture(scores: torch.Tensor, if_one: float, if_zero: float) -> torch.Tensor:
    """Return log(if_one * sigmoid(V) + if_zero * (1 - sigmoid(V))), stable for any V; one of the shares may be 0."""
    shares = ((if_one, F.logsigmoid(scores)), (if_zero, F.logsigmoid(-scores)))
    terms = [math.log(share) + log_prob for share, log_prob in shares if share > 0]
    return torch.logaddexp(*terms) if len(terms) == 2 else terms[0]


def _weighted_mean(losses: torch.Tensor, weights: torch.Tensor | None) -> torch.Tensor:
    if weights is None:
        return losses.mean()
    _check_shapes(chosen=losses, weights=weights)
    _check_unit_interval(weights=weights)
    weights = weights.to(losses)
    # The clamp takes effect only if every weight is 0: such a batch then adds 0 instead of NaN.
    return (weights * losses).sum() / weights.sum().clamp_min(torch.finfo(weights.dtype).tiny)


def _upcast(scores: torch.Tensor) -> torch.Tensor:
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def _check_choice(correction: str, known: Collection[str]) -> None:
    if correction not in known:
        raise ValueError(f"Unknown correction `{correction}`. {suggest(correction, known)}")


def _check_center(center: float, correction: str) -> None:
    if not center >= 0:
        raise ValueError(f"`center` is {center}; it must be at least 0.")
    if correction in UNBOUNDED_CORRECTIONS and center == 0:
        raise ValueError(
            f"The {correction} correction is unbounded below, so that scores grow without bound unless they are"
            " centred, and `center` is 0. Set `center` above 0 (e.g. 0.005), or choose `forward`."
        )


def _check_shapes(**tensors: torch.Tensor) -> None:
    """Require equal shapes: (n,) against (n, 1) would silently broadcast to (n, n)."""
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if len(set(shapes.values())) > 1:
        raise ValueError(f"Shapes differ: {', '.join(f'`{name}` {shape}' for name, shape in shapes.items())}.")
    if any(tensor.numel() == 0 for tensor in tensors.values()):
        raise ValueError(
            f"{' and '.join(f'`{name}`' for name in tensors)} are empty; a mean loss needs at least one row."
        )


def _check_unit_interval(**tensors: torch.Tensor) -> None:
    for name, tensor in tensors.items():
        outside = ~((tensor >= 0) & (tensor <= 1))
        if outside.any():
            raise ValueError(
                f"`{name}` must lie in [0, 1]; {int(outside.sum())} do not, e.g. {tensor[outside][0].item()}."
            )
