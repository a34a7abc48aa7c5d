"""Label noise on pairs, drawn per solution, so that it depends on neither batch order nor the number of processes."""

import torch

from pvg_hf.noise.draws import label_draw, pair_draw
from pvg_hf.noise.labels import flip_labels_by_uniforms
from pvg_hf.trainers.noisy_reward_config import NoisyRewardConfig

CLEAN_LABELS = (1.0, 0.0)  # (chosen, rejected)


def clean_labels(num_pairs: int) -> torch.Tensor:
    """Labels of (chosen, rejected), as the dataset has them: `torch.Tensor` of shape `(num_pairs, 2)`."""
    return torch.tensor(CLEAN_LABELS).repeat(num_pairs, 1)


def mean_labels(labels: torch.Tensor, rates: tuple[float, float]) -> torch.Tensor:
    """What `labels` of any shape are in the mean under noise, soft labels: `y (1 - rho1) + (1 - y) rho0`."""
    rho0, rho1 = rates
    return labels * (1 - rho1) + (1 - labels) * rho0


def noisy_labels(
    keys: torch.Tensor,
    rates: tuple[float, float],
    level: str,
    *,
    seed: int,
    moment: tuple[object, ...] = (),
    labels: torch.Tensor | None = None,
) -> torch.Tensor:
    """
    Flip the labels of pairs. A label flips where its draw is below its rate, so that a higher rate flips all that a
    lower one does, and a solution that stands in several pairs is told the same in all of them.

    Args:
        keys (`torch.Tensor` of shape `(num_pairs, 2)`):
            The identities of (chosen, rejected), see [`~pvg_hf.noise.draws.solution_key`].
        rates (`tuple[float, float]`):
            `(rho0, rho1)`: a label 1 flips with probability rho1, a label 0 with rho0.
        level (`str`):
            `"label"`: one draw for each solution; `"pair"`: one draw for both labels, which then flip together.
        seed (`int`):
            Of the draws.
        moment (`tuple[object, ...]`):
            When they are drawn anew, see [`~pvg_hf.noise.draws.label_draw`].
        labels (`torch.Tensor` of shape `(num_pairs, 2)`, *optional*):
            Labels of (chosen, rejected) that are flipped; (1, 0) throughout by default.

    Returns:
        `torch.Tensor` of shape `(num_pairs, 2)`: labels of (chosen, rejected), 0. or 1. (0, 1) is a reversed pair, equal
        labels are a tie.
    """
    pairs = [tuple(pair) for pair in keys.tolist()]
    if level == "pair":
        draws = [[pair_draw(seed, pair, *moment)] * 2 for pair in pairs]
    else:
        draws = [[label_draw(seed, key, *moment) for key in pair] for pair in pairs]
    uniforms = torch.tensor(draws, dtype=torch.float64).reshape(-1, 2)
    labels = clean_labels(len(pairs)) if labels is None else labels.cpu()
    return flip_labels_by_uniforms(labels, uniforms, rates)


def injected_labels(
    keys: torch.Tensor, given: torch.Tensor, args: NoisyRewardConfig, *, epoch: int, step: int
) -> torch.Tensor:
    """
    The labels of a batch under the noise that a trainer's arguments ask for.

    Args:
        keys, given (`torch.Tensor` of shape `(num_pairs, 2)`):
            Identities and labels of (chosen, rejected).
        args ([`NoisyRewardConfig`]):
            The noise.
        epoch (`int`), step (`int`):
            Of the training.

    Returns:
        `torch.Tensor` of shape `(num_pairs, 2)`: as [`noisy_labels`], on the device of `given`; for `mean`, soft ones.
    """
    rates = (args.noise_rho0, args.noise_rho1)
    if args.noise_resample == "mean":
        return mean_labels(given, rates)
    moment = {"fixed": (), "epoch": ("epoch", epoch), "step": ("step", step)}[args.noise_resample]
    return noisy_labels(keys, rates, args.noise_level, seed=args.noise_seed, moment=moment, labels=given).to(given)
