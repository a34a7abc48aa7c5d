"""
Run all checks that need a GPU, with random weights of realistic sizes; nothing is downloaded:

    python -m tools.check_gpu --minutes 20
    python -m tools.check_gpu --only gsm8k-qlora --only vllm
    python -m tools.check_gpu --toy

The output folder gets `check_gpu.json`, with every figure, and `check_gpu.md`, the tables of
docs/explanation/speed-and-memory.md. Both are written after each phase. Each part runs in separate processes: a part
that fails, is killed, does not fit in memory or runs out of time is recorded with its last lines, and the other parts
still run. The same command resumes with unfinished parts. Without a GPU, the parts run with toy sizes.
docs/explanation/speed-and-memory.md explains the figures.
"""

import argparse
import sys
from pathlib import Path

from tools.gpu_check.parts import PARTS, ROOT
from tools.gpu_check.runner import Check


def main() -> int:
    listed = "\n".join(f"  {part.name:15} {part.about}; at most {part.minutes:g} minutes" for part in PARTS)
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=f"parts, in their order:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [part.name for part in PARTS]
    parser.add_argument(
        "--only", action="append", choices=names, metavar="PART", help="run this part; may be repeated"
    )
    parser.add_argument(
        "--minutes", type=float, default=25, help="time limit for all parts of this call together (default: 25)"
    )
    parser.add_argument("--output", type=Path, default=ROOT / "runs" / "check-gpu", help="folder for the results")
    parser.add_argument("--again", action="store_true", help="also run parts that are done")
    parser.add_argument("--toy", action="store_true", default=None, help="tiny sizes; the default without a GPU")
    arguments = parser.parse_args()

    chosen = [part for part in PARTS if not arguments.only or part.name in ("probe", *arguments.only)]
    try:
        return Check(arguments.output, chosen, 60 * arguments.minutes, arguments.toy, arguments.again).run()
    except ValueError as err:
        print(f"error: {err}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
