"""
Time that the app takes to open a synthetic run of 200,000 solutions and to apply a filter:

    python benchmarks/app_filters.py

Prints one JSON object: seconds to open the run (once per app) and the extra resident memory; for each filter, and for
a search, the slowest of several answers in milliseconds, including the page's problem and histogram; and the slowest
answer relative to reading all solutions from disk once, as an app without an index would do. With `--num-rounds 1
--num-problems 25000`, all solutions are of one round.
"""

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from datasets import Features, Value

from pvg_hf.app.index import Filter, Query
from pvg_hf.app.runs import OpenRun
from pvg_hf.config import load_recipe
from pvg_hf.core.disk_names import round_name
from pvg_hf.core.roles import GAME_ROLES
from pvg_hf.core.seeding import derive_rng
from pvg_hf.data.pool import write_pool
from pvg_hf.data.schema import SOLUTION_COLUMNS

sys.path.insert(0, str(Path(__file__).parents[1]))  # the app is not installed with the package
from pvg_hf.app.links import View
from pvg_hf.app.solutions_page import show

COLUMNS = {**SOLUTION_COLUMNS, "difficulty": Value("int32")}
NUM_REPEATS = 5


def synthetic_rows(
    round_index: int, role: str, num_problems: int, num_samples: int
) -> Iterator[list[dict[str, object]]]:
    """
    Make solutions of about 280 characters to problems of about 300, 60 % correct, some of which fool the verifier.
    """
    rng = derive_rng(0, "benchmark", round_index, role)
    words = np.array([f"step {number:05d}, " for number in range(100_000)])
    for problem in range(num_problems):
        common = dict.fromkeys(COLUMNS) | {"part": "test", "round_index": round_index, "role": role}
        common |= {"problem_id": f"p{problem:07d}", "difficulty": problem % 5, "reference": "#### 3"}
        common |= {"problem": f"Problem {problem}: " + "how many are there? " * 14, "is_truncated": False}
        for sample in range(num_samples):
            is_correct = bool(rng.random() < 0.6)
            own = {
                "solution": "".join(rng.choice(words, 24)),
                "answer": "3",
                "correct": is_correct,
                "outcome": ("PROOF_INVALID", "VERIFIED")[is_correct],
                "score": float(rng.normal(is_correct)),
                "sample_index": sample,
            }
            yield [common | own]


def write_file(place: tuple[int, str], folder: Path, num_problems: int, num_samples: int) -> None:
    round_index, role = place
    path = folder / "pool" / round_name(round_index) / f"test-{role}.parquet"
    write_pool(path, synthetic_rows(round_index, role, num_problems, num_samples), Features(COLUMNS))


def write_run(folder: Path, num_rounds: int, num_problems: int, num_samples: int) -> None:
    (folder / "recipe.yaml").write_text(yaml.safe_dump(load_recipe({"num_rounds": num_rounds}).to_dict()))
    for round_index in range(num_rounds):
        calibration = folder / "verifier" / round_name(round_index) / "calibration.json"
        calibration.parent.mkdir(parents=True)
        calibration.write_text(json.dumps({"threshold": 0.5}))
    places = [(k, role.value) for k in range(num_rounds) for role in GAME_ROLES]
    write = partial(write_file, folder=folder, num_problems=num_problems, num_samples=num_samples)
    with ProcessPoolExecutor(2) as executor:
        list(executor.map(write, places))


def slowest_ms(ask: Callable[[], object]) -> float:
    times = []
    for _ in range(NUM_REPEATS):
        start = time.perf_counter()
        ask()
        times.append(1000 * (time.perf_counter() - start))
    return round(max(times), 1)


def measure(folder: Path) -> dict[str, object]:
    start, rss_before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run = OpenRun(folder)
    index = run.index()
    opened = time.perf_counter() - start
    extra_rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - rss_before  # KiB on Linux
    last = index.rounds[-1]

    def answer(query: Query) -> None:
        show(run, View(query), place=places[query], is_revealed=True)

    queries = {kind.value: Query(last, filter=kind) for kind in Filter}
    queries |= {"search": Query(last, search="Problem 77"), "difficulty": Query(last, difficulty="3")}
    places = {query: len(index.find(query)) // 2 for query in queries.values()}
    milliseconds = {name: slowest_ms(partial(answer, query)) for name, query in queries.items()}
    files = sorted(folder.glob("pool/*/*.parquet"))
    read_all = slowest_ms(lambda: pd.concat([pd.read_parquet(file) for file in files]))
    return {
        "num_solutions": index.num_solutions,
        "seconds_to_open": round(opened, 2),
        "peak_extra_rss_mb": extra_rss // 1024,
        "slowest_ms": milliseconds,
        "slowest_over_reading_all": round(max(milliseconds.values()) / read_all, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-rounds", type=int, default=5)
    parser.add_argument("--num-problems", type=int, default=5_000)
    parser.add_argument("--num-samples", type=int, default=4, help="solutions per problem, round and role")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_run(Path(folder), **vars(args))
        print(json.dumps(measure(Path(folder)), indent=2))


if __name__ == "__main__":
    main()
