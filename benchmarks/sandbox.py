"""
Programs per second of each sandbox, against a plain `subprocess.run` of Python for each case.

    python benchmarks/sandbox.py --programs 100 --cases 10
"""

import argparse
import subprocess
import sys
import time

from pvg_hf.experimental.programs.sandbox import CallCase, CaseOutcome, Limits, StdinCase, open_sandbox
from pvg_hf.experimental.programs.sandbox.backends import make_backends


def plain_seconds(num_programs: int, num_cases: int) -> float:
    """Time of a plain process for each case."""
    started = time.perf_counter()
    for number in range(num_programs):
        for case in range(num_cases):
            source = f"def f(x):\n    return x + {number}\nprint(f({case}))\n"
            subprocess.run([sys.executable, "-c", source], capture_output=True, check=True)
    return time.perf_counter() - started


def sandbox_seconds(backend: str, num_programs: int, num_cases: int, *, calls: bool, num_workers: int = 1) -> float:
    """Time of the same programs in a sandbox, without the start of its first worker."""
    jobs = []
    for number in range(num_programs):
        if calls:
            program = f"def f(x):\n    return x + {number}\n"
            cases = [CallCase("f", (case,), case + number) for case in range(num_cases)]
        else:
            program = f"print(int(input()) + {number})\n"
            cases = [StdinCase(f"{case}\n", f"{case + number}\n") for case in range(num_cases)]
        jobs.append((program, cases, Limits()))
    with open_sandbox(backend, num_workers=num_workers, cache=False) as sandbox:
        started = time.perf_counter()
        found = sandbox.run_many(jobs)
        seconds = time.perf_counter() - started
    assert all(result.outcome is CaseOutcome.PASSED for results in found for result in results)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--cases", type=int, default=10)
    parser.add_argument("--workers", type=int, default=1, help="programs that run at the same time")
    options = parser.parse_args()
    plain = plain_seconds(options.programs, options.cases)
    print(
        f"{options.programs} programs of {options.cases} cases; programs per second, and as a multiple of plain"
        " processes\n"
    )
    print("| way | calls | scripts |\n| --- | --- | --- |")
    rate = options.programs / plain
    print(f"| `subprocess.run` for each case | {rate:.1f} | {rate:.1f} |")
    for name, backend in reversed(make_backends().items()):
        if backend.lacking is not None or name == "container":
            continue
        cells = []
        for calls in (True, False):
            seconds = sandbox_seconds(name, options.programs, options.cases, calls=calls, num_workers=options.workers)
            cells.append(f"{options.programs / seconds:.0f} ({plain / seconds:.1f}x)")
        print(f"| `{name}` | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
