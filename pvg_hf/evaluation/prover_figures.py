"""Figures of a round's prover phase, from its metrics."""

from collections.abc import Mapping, Sequence
from typing import Any

from pvg_hf.core.figure import Figure


def parity_figures(lines: Sequence[Mapping[str, Any]]) -> dict[str, Figure]:
    """
    Figures of parity: sneaky incorrect solutions score as high as helpful correct ones, in smoothed means.

    Args:
        lines (`Sequence[Mapping[str, Any]]`):
            Metrics of the prover phase.

    Returns:
        `dict[str, Figure]`: `parity_step`, the first step of the sneaky role's training with parity (without a value if
        it was not reached), and `parity_gap`, the difference of the means at the end. `n` is the number of steps; there
        is no interval. Empty if the phase was played by an older version, or did not train the sneaky role.
    """
    line = next((line for line in reversed(lines) if "prover/parity_num_steps" in line), None)
    if line is None:
        return {}
    num_steps = line["prover/parity_num_steps"]
    return {name: Figure(line.get(f"prover/{name}"), None, None, num_steps) for name in ("parity_step", "parity_gap")}
