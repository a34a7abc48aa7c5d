"""
Evaluate finished rounds of a run with evaluations that need the players (docs/evaluation.md).

    python scripts/evaluate_run.py runs/quickstart
    python scripts/evaluate_run.py runs/quickstart --round 1 --only best_of_n
    python scripts/evaluate_run.py runs/quickstart --only best_of_n best_of_n.num_samples=2560
    python scripts/evaluate_run.py runs/quickstart --only attacks "attacks.rewards=[src]" --workers 2
    python scripts/evaluate_run.py --list

Results are stored in the run's folder, in judging/NAME/round-000, and are part of its metrics, report and app. The same command
resumes a stopped evaluation. A run that was pulled from the Hub is evaluated in the same way.
"""

import sys
from pathlib import Path

from pvg_hf.experimental.judging.evaluation_names import EVALUATION_NAMES
from pvg_hf.game.cli import run_command
from pvg_hf.run.console import ScriptParser, quiet_libraries, set_up_logging
from pvg_hf.run.layout import RunFolder


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("run", nargs="?", type=Path, help="the run's folder")
    parser.add_argument("overrides", nargs="*", metavar="NAME.key=value", help="settings of the evaluations")
    parser.add_argument(
        "--round", type=read_round, default="all", dest="round_index", metavar="K", help="a round, from 0, or `all`"
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        choices=EVALUATION_NAMES,
        metavar="NAME",
        help="an evaluation; may be repeated (default: all that are not costly)",
    )
    parser.add_argument(
        "--workers", type=int, metavar="N", help="processes for trainings of attackers (default: one per core)"
    )
    parser.add_argument(
        "--executor", metavar="MODULE:NAME", help="a function that returns an executor for them, e.g. a cluster's"
    )
    parser.add_argument(
        "--again", action="store_true", help="delete the stored results of these evaluations and rounds first"
    )
    parser.add_argument(
        "--list", action="store_true", dest="is_list", help="list the evaluations and their settings, and stop"
    )
    arguments = parser.parse_intermixed_args()

    if arguments.run is None and not arguments.is_list:
        parser.error("a run's folder is required, unless `--list` is given.")
    if arguments.workers is not None and arguments.workers < 1:
        parser.error(f"--workers is {arguments.workers}; it must be at least 1.")

    def run() -> str:
        if not arguments.is_list:
            RunFolder.find(arguments.run)  # refuses a wrong folder
        quiet_libraries()
        # Imported late: loading torch takes seconds, and neither `--help` nor a mistake in the arguments needs it.
        from pvg_hf.experimental.judging.listing import list_evaluations, show_results
        from pvg_hf.experimental.judging.run_evaluations import evaluate_run
        from pvg_hf.run.jobs import load_executor

        if arguments.is_list:
            return list_evaluations()
        results = evaluate_run(
            arguments.run,
            round_index=arguments.round_index,
            only=arguments.only,
            overrides=arguments.overrides,
            again=arguments.again,
            num_workers=arguments.workers,
            executor=load_executor(arguments.executor) if arguments.executor else None,
        )
        return show_results(results)

    set_up_logging()
    return run_command(run)


def read_round(text: str) -> int | str:
    return "all" if text == "all" else int(text)


if __name__ == "__main__":
    sys.exit(main())
