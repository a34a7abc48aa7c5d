"""
Time that the app takes to open a synthetic run of 200,000 solutions, and to sort, filter and search them:

    python benchmarks/app_filters.py

Prints one JSON object: seconds to open the run (once per app) and the extra resident memory; the slowest of several
answers of the page in milliseconds, for the first rows, each order, filters and a pair; the first search for a text,
which reads all solutions; and the slowest answer and opening relative to reading all solutions from disk once, as an
app without an index would do. With `--num-rounds 1 --num-problems 25000`, all solutions are of one round.
"""

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from datasets import Features, Value

from pvg_hf.app.index import Query
from pvg_hf.app.runs import OpenRun
from pvg_hf.config import load_recipe
from pvg_hf.core.disk_names import round_name
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.core.seeding import derive_rng
from pvg_hf.data.pool import write_pool
from pvg_hf.data.schema import SOLUTION_COLUMNS

sys.path.insert(0, str(Path(__file__).parents[1]))  # the app is not installed with the package
from pvg_hf.app.links import View, parse_link, write_link
from pvg_hf.app.solutions_page import show_solutions
from pvg_hf.app.text_scores import ScoreDesk

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
                "num_tokens": 170,
            }
            yield [common | own]


def write_file(place: tuple[int, str], folder: Path, num_problems: int, num_samples: int) -> None:
    round_index, role = place
    path = folder / "pool" / round_name(round_index) / f"test-{role}.parquet"
    write_pool(path, synthetic_rows(round_index, role, num_problems, num_samples), Features(COLUMNS))


def write_run(folder: Path, num_rounds: int, num_problems: int, num_samples: int) -> None:
    (folder / "recipe.yaml").write_text(yaml.safe_dump(load_recipe({"num_rounds": num_rounds}).to_dict()))
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
    desk, last = ScoreDesk(run), index.rounds[-1]
    show = partial(show_solutions, run, desk)

    def answer(view: View) -> float:
        return slowest_ms(lambda: show(parse_link(write_link(view))))

    every = View(Query())
    mistakes = View(Query(last, is_test=True, role=Role.SNEAKY, correct=False))
    first = every.query
    times = {"first rows": answer(every), "last page": answer(replace(every, page=10**6))}
    times |= {f"sort by {name}": answer(replace(every, query=replace(first, sort=name))) for name in index.columns}
    times |= {
        "filter: mistakes of the last round": answer(mistakes),
        "filter: accepted": answer(replace(every, query=replace(first, accepted=True))),
        "filter: fools verifier 0": answer(replace(every, query=replace(first, fooled=0))),
        "filter: difficulty": answer(replace(every, query=replace(first, difficulty="3"))),
    }
    start = time.perf_counter()
    show({"search": "step 04242", "sort": "-score"})
    searched = 1000 * (time.perf_counter() - start)
    times |= {"search again": answer(replace(every, query=replace(first, search="step 04242")))}
    times |= {
        "pair": answer(replace(mistakes, at=777)),
        "pair in every round": answer(replace(mistakes, at=777, has_strip=True)),
    }
    files = sorted(folder.glob("pool/*/*.parquet"))
    read_all = slowest_ms(lambda: pd.concat([pd.read_parquet(file) for file in files]))
    return {
        "num_solutions": index.num_solutions,
        "seconds_to_open": round(opened, 2),
        "peak_extra_rss_mb": extra_rss // 1024,
        "slowest_ms": times,
        "first_search_ms": round(searched, 1),
        "slowest_over_reading_all": round(max(times.values()) / read_all, 3),
        "opening_over_reading_all": round(1000 * opened / read_all, 3),
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
