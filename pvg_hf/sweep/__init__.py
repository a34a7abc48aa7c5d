"""A game over noise levels, seeds and corrections: what noise takes from a verifier, and what a correction gives back."""

from pvg_hf.sweep.cells import Cell, list_cells
from pvg_hf.sweep.sweep import describe_sweep, run_sweep

__all__ = ["Cell", "describe_sweep", "list_cells", "run_sweep"]
