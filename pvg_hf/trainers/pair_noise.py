"""Label noise on pairs, drawn per solution, so that it depends on neither batch order nor the number of processes."""

import torch

from pvg_hf.noise.draws import label_draw, pair_draw
from pvg_hf.noise.labels import flip_labels_by_uniforms

CLEAN_LABELS = (1.0, 0.0)  # (chosen, rejected)


def clean_labels(num_pairs: int) -> torch.Tensor:
    """Labels of (chosen, rejected), as the dataset has them: `torch.Tensor` of shape `(num_pairs, 2)`."""
    return torch.tensor(CLEAN_LABELS).repeat(num_pairs, 1)


def mean_labels(num_pairs: int, rates: tuple[float, float]) -> torch.Tensor:
    """The means of noisy labels of (chosen, rejected), soft ones: `torch.Tensor` of shape `(num_pairs, 2)`."""
    rho0, rho1 = rates
    return torch.tensor((1 - rho1, rho0)).repeat(num_pairs, 1)


def noisy_labels(
    keys: torch.Tensor, rates: tuple[float, float], level: str, *, seed: int, moment: tuple[object, ...] = ()
) -> torch.Tensor:
    """
    Flip the labels of pairs. A label flips where its draw is below its rate, so that a higher rate flips all that a
    lower one does, and a solution that stands in several pairs is told the same in all of them.

    Args:
        keys (`torch.Tensor` of shape `(num_pairs, 2)`):
            The identities of (chosen, rejected), see [`~pvg_hf.noise.draws.solution_key`].
        rates (`tuple[float, float]`):
            `(rho0, rho1)`: the chosen solution's label flips with probability rho1, the rejected one's with rho0.
        level (`str`):
            `"label"`: one draw for each solution; `"pair"`: one draw for both labels, which then flip together.
        seed (`int`):
            Of the draws.
        moment (`tuple[object, ...]`):
            When they are drawn anew, see [`~pvg_hf.noise.draws.label_draw`].

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
    return flip_labels_by_uniforms(clean_labels(len(pairs)), uniforms, rates)
