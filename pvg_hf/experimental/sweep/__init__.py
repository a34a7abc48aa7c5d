"""
Sweeps over noise levels, seeds and corrections: how much a verifier loses by label noise, and how much a correction
recovers.
"""

from pvg_hf.experimental.sweep.cells import Cell, list_cells
from pvg_hf.experimental.sweep.runner import describe_sweep, run_sweep

__all__ = ["Cell", "describe_sweep", "list_cells", "run_sweep"]
