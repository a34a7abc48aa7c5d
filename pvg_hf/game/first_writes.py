"""Tries at the start of a game, with tiny data, what phases do only at their end."""

import tempfile
from pathlib import Path

import pandas as pd
import torch
from safetensors.torch import load_file, save_file

from pvg_hf.config import Recipe
from pvg_hf.core.afterwards import only_warning
from pvg_hf.core.disk_names import TRIAL
from pvg_hf.core.files import remove, sync_tree, write_parquet
from pvg_hf.core.integrity import find_damaged, write_digests
from pvg_hf.report.page import render_page
from pvg_hf.report.plots.style import Plot, new_canvas
from pvg_hf.run.layout import RunFolder
from pvg_hf.run.read import load_run


def try_checkpoint(root: Path) -> None:
    """
    Write weights, an optimiser's state, solutions and digests below `root`, rename their folder, and read them.

    If other values are read than were written, this is a `ValueError`. Errors of the file system pass unchanged.
    Nobody else may play the run: what killed processes have left of such trials is deleted.
    """
    of_older_versions = [left for left in root.glob("tmp????????") if left.is_dir() and not any(left.iterdir())]
    for left in [*root.glob(f"{TRIAL}*"), *of_older_versions]:
        remove(left)
    weights, rows = {"weight": torch.arange(4.0)}, pd.DataFrame({"score": [0.5]})
    with tempfile.TemporaryDirectory(dir=root, prefix=TRIAL) as scratch:
        partial, final = Path(scratch) / "partial", Path(scratch) / "final"
        partial.mkdir()
        save_file(weights, partial / "model.safetensors")
        torch.save(weights, partial / "optimizer.pt")
        write_parquet(partial / "rows.parquet", rows)
        write_digests(partial)
        sync_tree(partial)
        partial.rename(final)
        read = load_file(final / "model.safetensors"), torch.load(final / "optimizer.pt", weights_only=True)
        is_same = all(torch.equal(found["weight"], weights["weight"]) for found in read)
        if not is_same or any(find_damaged(final)) or not rows.equals(pd.read_parquet(final / "rows.parquet")):
            raise ValueError(f"{root} does not give back what was written to it; name another `output_dir`.")


def try_report(recipe: Recipe, folder: RunFolder) -> None:
    """Render the report and a plot of a run that has no report yet, without writing them; an error is a warning."""
    if not recipe.logging.report or folder.report.exists():
        return
    with only_warning("The report cannot be written; the game continues without one"):
        canvas = new_canvas(1, 1)
        canvas.subplots()
        Plot("try", "", "", canvas).to_png()
        render_page(load_run(folder.root), {}, {})
