"""
Time of a whole round of the quickstart, by kind of work, and compared with the same round written with TRL's trainers
and `generate` (`glued_round.py`):

    python benchmarks/quickstart_round.py

Each is played in a separate process, one after the other, and timed without its imports. Early stopping is off in
both, so that they do the same work. Prints one JSON object.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from functools import reduce
from pathlib import Path

RECIPE = Path(__file__).parents[1] / "recipes" / "quickstart.yaml"
CHANGES = ["num_rounds=1", "stopping.rule=max_steps", "logging.progress=false"]


def play_ours(folder: Path) -> dict[str, float]:
    from pvg_hf import load_recipe, play
    from pvg_hf.core.stopwatch import OTHER, add_splits
    from pvg_hf.run.read import load_run

    recipe = load_recipe(RECIPE, [*CHANGES, f"output_dir={folder}"])
    start = time.perf_counter()
    run = play(recipe)
    total = time.perf_counter() - start
    split = reduce(add_splits, load_run(run.root).phase_splits().values())
    seconds = {kind: spent.seconds for kind, spent in split.items() if kind != OTHER}
    return {"seconds": total, **seconds, OTHER: total - sum(seconds.values())}


def play_glued(folder: Path) -> dict[str, float]:
    from glued_round import play_round

    start = time.perf_counter()
    play_round(folder)
    return {"seconds": time.perf_counter() - start}


def play_in_process(name: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--play", name, "--folder", folder]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--play", choices=["ours", "glued"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.play:
        result = {"ours": play_ours, "glued": play_glued}[arguments.play](arguments.folder)
        print(json.dumps(result))
        return
    ours, glued = play_in_process("ours"), play_in_process("glued")
    total = ours.pop("seconds")
    result = {
        "seconds_ours": round(total, 1),
        "seconds_glued": round(glued["seconds"], 1),
        "ours_over_glued": round(total / glued["seconds"], 3),
        **{f"share_{kind}": round(seconds / total, 3) for kind, seconds in ours.items()},
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
