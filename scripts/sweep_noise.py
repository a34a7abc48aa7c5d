"""
Play a recipe over noise levels, seeds and corrections, and measure how much the verifier loses by the noise.

    python scripts/sweep_noise.py recipes/noise/sweep-small.yaml
    python scripts/sweep_noise.py recipes/noise/sweep.yaml --plan
    python scripts/sweep_noise.py recipes/noise/sweep.yaml --workers 4 "sweep.levels=[0, 0.2]"

The same command resumes a stopped sweep: finished cells are not played again. The folder OUTPUT_DIR/NAME holds summary.md, CSV
tables, results.json and plots/.
"""

import sys

from pvg_hf.config import load_recipe
from pvg_hf.game.cli import run_command
from pvg_hf.run.console import ScriptParser, quiet_libraries, set_up_logging


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("recipe", help="a YAML file with a section `sweep`")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings that override the recipe")
    parser.add_argument(
        "--workers", type=int, metavar="N", help="processes (default: one per core, at most eight; one with a GPU)"
    )
    parser.add_argument(
        "--executor", metavar="MODULE:NAME", help="a function that returns an executor for the cells, e.g. a cluster's"
    )
    parser.add_argument("--plan", action="store_true", help="check the recipe, print how long it will take, and stop")
    arguments = parser.parse_intermixed_args()
    if arguments.workers is not None and arguments.workers < 1:
        parser.error(f"--workers is {arguments.workers}; it must be at least 1.")

    def run() -> str:
        recipe = load_recipe(arguments.recipe, arguments.overrides)
        quiet_libraries()
        # Imported late: loading torch takes seconds, and neither `--help` nor a mistake in the arguments needs it.
        from pvg_hf.experimental.sweep import describe_sweep, run_sweep
        from pvg_hf.run.jobs import load_executor

        if arguments.plan:
            return describe_sweep(recipe, num_workers=arguments.workers)
        executor = load_executor(arguments.executor) if arguments.executor else None
        folder = run_sweep(recipe, num_workers=arguments.workers, executor=executor)
        return f"{folder.summary.read_text(encoding='utf-8')}\nEverything is in {folder.root}"

    set_up_logging()
    return run_command(run)


if __name__ == "__main__":
    sys.exit(main())
