"""
One round of `arithmetic-short` with a candidate verifier, which has a helpful and a sneaky prover of its own. Research code.

    PVG_HEAD_READ=READ PVG_LM=LM python experiments/candidates/game.py NAME SEED OUTPUT [section.key=value ...]

Apply the `library.patch` of commit 50838e16 to commit e9aede1; READ, LM and changes are those of its README. The base prover's
solutions are copied from the game `one-head-SEED` in OUTPUT, if it is there.
"""

import os
import sys
from pathlib import Path

import torch

torch.set_num_threads(1)

import experiments.shared_phases as shared
import pvg_hf.game.play as game
from pvg_hf.config import load_recipe
from pvg_hf.run.layout import RunFolder, early_phases


def main():
    name, seed, output, changes = sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4:]
    print(name, {key: os.environ.get(key) for key in ("PVG_HEAD_READ", "PVG_LM")}, changes, flush=True)
    settings = [f"seed={seed}", f"name=one-{name}-{seed}", f"output_dir={output}", "num_rounds=1", *changes]
    recipe = load_recipe("recipes/arithmetic-short.yaml", settings)
    first = output / f"one-head-{seed}"
    if first.exists() and name != "head":
        shared.same_phases = lambda ours, theirs: list(early_phases(ours))
        print(shared.begin_with(recipe, RunFolder.find(first)), flush=True)
    game.play(recipe)


if __name__ == "__main__":
    main()
