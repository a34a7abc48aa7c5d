"""
Play a message game over noise levels and seeds, and measure how far it moves from the clean equilibrium.

    python scripts/sweep_equilibrium.py recipes/messages/erasure.yaml
    python scripts/sweep_equilibrium.py recipes/messages/erasure.yaml --plan
    python scripts/sweep_equilibrium.py recipes/messages/erasure.yaml --workers 2 "equilibrium.levels=[0, 0.2]"
    python scripts/sweep_equilibrium.py recipes/messages/erasure.yaml --executor my_cluster:executor

The same command resumes a stopped sweep. The folder OUTPUT_DIR/NAME-equilibrium holds summary.md, cells.csv and plots/.
"""

import sys

from pvg_hf.experimental.messages.recipe import load_message_recipe
from pvg_hf.game.cli import run_command
from pvg_hf.run.console import ScriptParser, quiet_libraries, set_up_logging


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("recipe", help="a YAML file of a message game")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings that override the recipe")
    parser.add_argument(
        "--workers", type=int, default=1, metavar="N", help="processes, with a level each (default: 1)"
    )
    parser.add_argument(
        "--executor", metavar="MODULE:NAME", help="a function that returns an executor, e.g. of a cluster"
    )
    parser.add_argument("--plan", action="store_true", help="check the recipe, print levels and progress, and stop")
    arguments = parser.parse_intermixed_args()
    if arguments.workers < 1:
        parser.error(f"--workers is {arguments.workers}; it must be at least 1.")

    def run() -> str:
        recipe = load_message_recipe(arguments.recipe, arguments.overrides)
        quiet_libraries()
        # Imported late: loading torch takes seconds, and neither `--help` nor a mistake in the arguments needs it.
        from pvg_hf.experimental.messages.equilibrium import describe_equilibrium, run_equilibrium
        from pvg_hf.experimental.messages.equilibrium_report import write_equilibrium
        from pvg_hf.run.jobs import load_executor

        if arguments.plan:
            return describe_equilibrium(recipe)
        executor = load_executor(arguments.executor) if arguments.executor else None
        folder, table = run_equilibrium(recipe, num_workers=arguments.workers, executor=executor)
        write_equilibrium(recipe, folder, table)
        return f"{folder.summary.read_text(encoding='utf-8')}\nEverything is in {folder.root}"

    set_up_logging()
    return run_command(run)


if __name__ == "__main__":
    sys.exit(main())
