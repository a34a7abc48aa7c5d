"""Figures of a round's prover phase, from its metrics."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pvg_hf.core.figure import Figure
from pvg_hf.core.roles import GAME_ROLES


def parity_figures(lines: Sequence[Mapping[str, Any]]) -> dict[str, Figure]:
    """
    Figures of parity: sneaky incorrect solutions score as high as helpful correct ones, in smoothed means.

    Args:
        lines (`Sequence[Mapping[str, Any]]`):
            Metrics of the prover phase.

    Returns:
        `dict[str, Figure]`: `parity_step`, the first step of the sneaky role's training with parity (without a value if
        it was not reached), and `parity_gap`, the difference of the means at the end. `n` is the number of steps; there
        is no interval. Empty if the phase did not train the sneaky role.
    """
    line = next((line for line in reversed(lines) if "prover/parity_num_steps" in line), None)
    if line is None:
        return {}
    num_steps = line["prover/parity_num_steps"]
    return {name: Figure(line.get(f"prover/{name}"), None, None, num_steps) for name in ("parity_step", "parity_gap")}


FIFTHS = 5


def late_changes(lines: Sequence[Mapping[str, Any]]) -> dict[str, Figure]:
    """
    Figures of whether a role loses accuracy at the end of its training, as Kirchner et al. 2024 report of the helpful role.

    Args:
        lines (`Sequence[Mapping[str, Any]]`):
            Metrics of the prover phase.

    Returns:
        `dict[str, Figure]`: `late_change/ROLE`, the mean accuracy of the role's training solutions over the last fifth of its
        steps less that over the middle fifth. `n` is the number of steps in a fifth; there is no interval. A role with fewer
        than five steps has none.
    """
    figures = {}
    for role in GAME_ROLES:
        steps = [line[f"prover/accuracy/{role}"] for line in lines if line.get(f"prover/accuracy/{role}") is not None]
        size = len(steps) // FIFTHS
        if size:
            start = (len(steps) - size) // 2
            change = np.mean(steps[-size:]) - np.mean(steps[start : start + size])
            figures[f"late_change/{role}"] = Figure(float(change), None, None, size)
    return figures
