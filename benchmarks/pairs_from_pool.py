"""
Time and memory of building pairs from a synthetic pool of a million solutions in ten rounds:

    python benchmarks/pairs_from_pool.py

Prints one JSON object: seconds and peak extra resident memory for the verifier of round 9, which uses all ten files,
and the ratio of its seconds to those for the verifier of round 1, which uses two files. Both are given for the pairs
alone, and for all work before training, including tokenization.
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

from pvg_hf.core.disk_names import round_name
from pvg_hf.core.seeding import derive_rng
from pvg_hf.data.mixture import mixture_weights
from pvg_hf.data.pairs.build import build_pairs
from pvg_hf.data.pool import write_pool
from pvg_hf.data.schema import SOLUTION_COLUMNS
from pvg_hf.game.phases.verifier import tokenize_pairs
from pvg_hf.models.from_config import train_tokenizer
from pvg_hf.models.verifier_input import VerifierInput


def synthetic_rows(round_index: int, num_problems: int, num_samples: int) -> Iterator[list[dict[str, object]]]:
    """Make batches of one row each: solutions of about 280 characters, 60 % correct, 5 % without an answer."""
    rng = derive_rng(0, "benchmark", round_name(round_index))
    words = np.array([f"step {number:05d}, " for number in range(100_000)])
    for problem in range(num_problems):
        common = dict.fromkeys(SOLUTION_COLUMNS) | {"part": "verifier", "round_index": round_index}
        common |= {"problem_id": f"p{problem:07d}", "problem": f"Problem {problem}: " + "how many are there? " * 10}
        for sample in range(num_samples):
            is_correct, has_answer = bool(rng.random() < 0.6), bool(rng.random() < 0.95)
            own = {
                "role": "base" if round_index == -1 else ("helpful", "sneaky")[sample % 2],
                "solution": "".join(rng.choice(words, 24)),
                "correct": is_correct,
                "label": int(is_correct),
                "outcome": ("PROOF_INVALID", "VERIFIED")[is_correct] if has_answer else "NO_ANSWER",
                "sample_index": sample,
            }
            yield [common | own]


def write_round(round_index: int, folder: str, num_problems: int, num_samples: int) -> Path:
    path = Path(folder) / f"{round_name(round_index)}.parquet"
    write_pool(path, synthetic_rows(round_index, num_problems, num_samples), Features(SOLUTION_COLUMNS))
    return path


def measure(paths: list[Path], round_index: int, tokenizer) -> dict[str, float]:
    start, before = time.perf_counter(), peak_mb()
    weights = mixture_weights("equal_per_round", round_index)
    pairs, report = build_pairs(paths, seed=0, round_index=round_index, weights=weights, solutions_per_problem=8)
    paired, peak_paired = time.perf_counter() - start, peak_mb()
    tokenize_pairs(pairs, tokenizer, VerifierInput("{{ problem }}\n{{ solution }}", tokenizer.eos_token, 1024))
    return {
        "num_solutions": report.num_solutions,
        "num_pairs": report.num_pairs,
        "seconds_pairs": round(paired, 2),
        "seconds": round(time.perf_counter() - start, 2),
        "peak_extra_mb_pairs": peak_paired - before,
        "peak_extra_mb": peak_mb() - before,
    }


def peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024  # KiB on Linux


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-problems", type=int, default=12_500)
    parser.add_argument("--num-samples", type=int, default=8, help="solutions per problem and round")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with ProcessPoolExecutor(2) as executor:
            paths = list(executor.map(partial(write_round, folder=folder, **vars(args)), range(-1, 9)))
        texts = [row["solution"] for rows in synthetic_rows(-1, 200, 1) for row in rows]
        tokenizer = train_tokenizer(texts, 4096)
        with ProcessPoolExecutor(
            1, max_tasks_per_child=1
        ) as fresh:  # a new process for each, so that peaks do not mix
            round_1, round_9 = (
                fresh.submit(measure, paths[: index + 1], index, tokenizer).result() for index in (1, 9)
            )
    ratios = {
        f"round_9_over_round_1_{key}": round(round_9[key] / round_1[key], 2) for key in ("seconds_pairs", "seconds")
    }
    print(json.dumps({**round_9, **ratios}, indent=2))


if __name__ == "__main__":
    main()
