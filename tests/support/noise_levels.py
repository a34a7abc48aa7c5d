"""
Memory at the beginning of each phase. As a script it plays a recipe in a separate process, and prints the resident
memory:

    python noise_levels.py recipe.json
"""

import gc
import json
import sys
from collections.abc import Callable
from pathlib import Path

import psutil

from pvg_hf import load_recipe, play
from pvg_hf.game.context import GameCallback


class Levels(GameCallback):
    """Measures before each phase."""

    def __init__(self, measure: Callable[[], int]):
        self.measure = measure
        self.before: dict[str, int] = {}

    def on_phase_begin(self, context):
        self.before[str(context.phase)] = self.measure()


def resident_bytes() -> int:
    gc.collect()
    return psutil.Process().memory_info().rss


if __name__ == "__main__":
    levels = Levels(resident_bytes)
    play(load_recipe(json.loads(Path(sys.argv[1]).read_text())), callbacks=[levels])
    sys.stdout.write(json.dumps(levels.before))
