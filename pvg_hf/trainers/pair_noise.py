"""Label noise on pairs, drawn per row, so that it depends on neither batch order nor the number of processes."""

from collections.abc import Iterable

import torch

from pvg_hf.noise.labels import flip_labels_by_uniforms
from pvg_hf.seeding import derive_uniform

CLEAN_LABELS = (1.0, 0.0)  # (chosen, rejected)


def clean_labels(num_pairs: int) -> torch.Tensor:
    """Labels of (chosen, rejected), as the dataset has them: `torch.Tensor` of shape `(num_pairs, 2)`."""
    return torch.tensor(CLEAN_LABELS).repeat(num_pairs, 1)


def noisy_labels(
    row_indices: Iterable[int], rates: tuple[float, float], level: str, *, path: tuple[object, ...]
) -> torch.Tensor:
    """
    Flip the labels of pairs. A label flips where its draw is below its rate, so that a higher rate flips all that a
    lower one does, and more.

    Args:
        row_indices (`Iterable[int]`):
            The identity of each pair in its dataset.
        rates (`tuple[float, float]`):
            `(rho0, rho1)`: the chosen solution's label flips with probability rho1, the rejected one's with rho0.
        level (`str`):
            `"label"`: one draw for each of the two labels; `"pair"`: one draw for both, which then flip together.
        path (`tuple[object, ...]`):
            Seed and names that the draws derive from, see [`~pvg_hf.seeding.derive_seed`].

    Returns:
        `torch.Tensor` of shape `(num_pairs, 2)`: labels of (chosen, rejected), 0. or 1. (0, 1) is a reversed pair, equal
        labels are a tie.
    """
    num_draws = 1 if level == "pair" else 2
    draws = [[derive_uniform(*path, row, side) for side in range(num_draws)] for row in row_indices]
    uniforms = torch.tensor(draws, dtype=torch.float64).expand(-1, 2)
    return flip_labels_by_uniforms(clean_labels(len(draws)), uniforms, rates)
