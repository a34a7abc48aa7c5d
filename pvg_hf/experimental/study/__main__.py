"""
Run a legibility study on a run's test solutions: can people spot the mistakes, blinded and against the clock?

    python -m pvg_hf.experimental.study runs/quickstart
    python -m pvg_hf.experimental.study org/run --repo org/answers     # commits the answers; needs HF_TOKEN

By default, the app is reachable only from this machine; set GRADIO_SERVER_NAME to change this. It needs no GPU and
trains nothing.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pvg_hf.app.__main__ import open_app, run_parser
from pvg_hf.experimental.study import MAX_PARTICIPANTS, NUM_SOLUTIONS, SECONDS


def main(arguments: Sequence[str] | None = None) -> int:
    parser = run_parser("python -m pvg_hf.experimental.study", __doc__)
    parser.add_argument("--dir", type=Path, help="folder of the answers (default: RUN/study)")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help=f"time limit for a solution (default {SECONDS:g})"
    )
    parser.add_argument(
        "--solutions", type=int, default=NUM_SOLUTIONS, help=f"solutions per participant (default {NUM_SOLUTIONS})"
    )
    parser.add_argument(
        "--participants",
        type=int,
        default=MAX_PARTICIPANTS,
        help=f"maximum number of participants, including those with CSV sheets (default {MAX_PARTICIPANTS})",
    )
    parser.add_argument("--repo", metavar="ORG/NAME", help="dataset repository to commit answers to; needs HF_TOKEN")
    options = parser.parse_args(arguments)
    if options.seconds <= 0 or options.solutions < 1 or options.participants < 1:
        parser.error("--seconds must be above 0, --solutions and --participants at least 1")
    return open_app(parser, options, _serve)


def _serve(options: argparse.Namespace) -> None:
    from pvg_hf.experimental.study.app import StudySettings, serve_study

    settings = StudySettings(
        folder=options.dir,
        seconds=options.seconds,
        num_solutions=options.solutions,
        repository=options.repo,
        max_participants=options.participants,
    )
    serve_study(options.run, settings, options.port)


if __name__ == "__main__":
    sys.exit(main())
