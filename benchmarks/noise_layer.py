"""
Time that an imperfect checker adds to a call, including writing its event:

    python benchmarks/noise_layer.py

Prints one JSON object: microseconds per call over 100,000 calls, with and without writing events to a file, for the
default tier and for each escalation policy, in which a check makes up to three calls. It also has the processor time,
which other work on the machine affects less. No base checker is called, so that its time is not included.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pvg_hf.noise import ImperfectChecker, Routes, Routing
from pvg_hf.noise.verdicts import Verdict

VERDICTS = (Verdict(True), Verdict(False))
SOLUTION = "She has 3 + 4 = 7 pens.\nShe gives away 2, which leaves 7 - 2 = 5 pens.\n#### {answer}"


def measure(routing: Routing, num_calls: int, write: Callable[[str], object] | None) -> dict[str, float]:
    checker = ImperfectChecker(None, Routes(routing, slice_by="difficulty"), write=write)
    problems = [{"problem_id": f"arithmetic-train-{index:06d}", "difficulty": index % 6} for index in range(num_calls)]
    texts = [SOLUTION.format(answer=index) for index in range(num_calls)]
    num_made, asked = 0, 0
    started, cpu_started = time.perf_counter(), time.process_time()
    while num_made < num_calls:
        outcome = checker.check(problems[asked], texts[asked], verdict=VERDICTS[asked % 2])
        num_made, asked = num_made + outcome.attempts, asked + 1
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
    return {
        "microseconds_per_call": round(1e6 * seconds / num_made, 2),
        "cpu_microseconds_per_call": round(1e6 * cpu_seconds / num_made, 2),
        "calls_per_check": round(num_made / asked, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-calls", type=int, default=100_000)
    num_calls = parser.parse_args().num_calls
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "events.jsonl").open("w", encoding="utf-8") as file:
        policies = ("never", "on_timeout", "on_failure", "always")
        result = {policy: measure(Routing(escalation_policy=policy), num_calls, file.write) for policy in policies}
        file.flush()
        result["bytes_per_event"] = round(Path(file.name).stat().st_size / (num_calls * len(policies)))
        result["never, without events"] = measure(Routing(), num_calls, None)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
