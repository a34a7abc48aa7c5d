"""
How long and how much memory pairing takes, on a synthetic pool of a million solutions in ten rounds:

    python benchmarks/pairs_from_pool.py

Prints one JSON object: seconds and peak extra resident memory for the verifier of round 9, which draws on all ten
files, and its seconds relative to those for the verifier of round 1, which draws on two of them.
"""

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from datasets import Features

from pvg_hf.data.mixture import mixture_weights
from pvg_hf.data.pairs import build_pairs
from pvg_hf.data.pool import write_pool
from pvg_hf.data.schema import SOLUTION_COLUMNS, round_name
from pvg_hf.seeding import derive_rng


def synthetic_rows(round_index: int, num_problems: int, num_samples: int) -> Iterator[list[dict[str, object]]]:
    """One batch per problem; solutions of about 280 characters, 60 % correct, 5 % without an answer."""
    rng = derive_rng(0, "benchmark", round_name(round_index))
    words = np.array([f"step {number:05d}, " for number in range(100_000)])
    for problem in range(num_problems):
        common = dict.fromkeys(SOLUTION_COLUMNS) | {
            "problem_id": f"problem-{problem:07d}",
            "problem": f"Problem {problem}: " + "how many are there? " * 10,
            "part": "verifier",
            "round_index": round_index,
        }
        for sample in range(num_samples):
            is_correct, has_answer = bool(rng.random() < 0.6), bool(rng.random() < 0.95)
            yield [
                common
                | {
                    "role": "base" if round_index == -1 else ("helpful", "sneaky")[sample % 2],
                    "solution": "".join(rng.choice(words, 24)),
                    "correct": is_correct,
                    "label": int(is_correct),
                    "outcome": ("PROOF_INVALID", "VERIFIED")[is_correct] if has_answer else "NO_ANSWER",
                    "sample_index": sample,
                }
            ]


def write_round(round_index: int, folder: str, num_problems: int, num_samples: int) -> Path:
    path = Path(folder) / f"{round_name(round_index)}.parquet"
    write_pool(path, synthetic_rows(round_index, num_problems, num_samples), Features(SOLUTION_COLUMNS))
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-problems", type=int, default=12_500)
    parser.add_argument("--num-samples", type=int, default=8, help="solutions per problem and round")
    parser.add_argument("--solutions-per-problem", type=int, default=8)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(2) as executor:
        write = partial(write_round, folder=folder, num_problems=args.num_problems, num_samples=args.num_samples)
        paths = list(executor.map(write, range(-1, 9)))
        rss_before, seconds = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, {}
        for k in (1, 9):
            start, weights = time.perf_counter(), mixture_weights("equal_per_round", k)
            slots = args.solutions_per_problem
            pairs, report = build_pairs(
                paths[: k + 1], seed=0, round_index=k, weights=weights, solutions_per_problem=slots
            )
            seconds[k] = time.perf_counter() - start
        extra_rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - rss_before  # KiB on Linux
        print(
            json.dumps(
                {
                    "num_solutions": report.num_solutions,
                    "num_pairs": len(pairs),
                    "seconds": round(seconds[9], 2),
                    "peak_extra_rss_mb": round(extra_rss / 1024),
                    "round_9_over_round_1": round(seconds[9] / seconds[1], 2),
                }
            )
        )


if __name__ == "__main__":
    main()
