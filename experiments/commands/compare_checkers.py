"""
Play a recipe with checkers that err at one rate in different ways, and compare what the prover learns from them.

    python experiments/commands/compare_checkers.py recipes/noise/same-rate.yaml
    python experiments/commands/compare_checkers.py recipes/noise/same-rate.yaml prover.max_steps=50 --seeds 0
    python experiments/commands/compare_checkers.py recipes/noise/same-rate.yaml --plan

The same command resumes a stopped comparison: finished games are not played again. They are in OUTPUT_DIR/NAME-ARM-seed-K. The
folder OUTPUT_DIR/NAME holds summary.md and games.csv.
"""

import sys

from pvg_hf.config import load_recipe
from pvg_hf.game.cli import run_command
from pvg_hf.run.console import ScriptParser, quiet_libraries, set_up_logging


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("recipe", help="a YAML file with a section `arms`")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings that override the recipe")
    parser.add_argument("--seeds", type=int, nargs="+", help="seeds (default: those of the recipe)")
    parser.add_argument("--plan", action="store_true", help="check the recipe, print how long it will take, and stop")
    arguments = parser.parse_intermixed_args()

    def run() -> str:
        seeds = [f"arms.seeds={arguments.seeds}"] if arguments.seeds else []
        recipe = load_recipe(arguments.recipe, [*arguments.overrides, *seeds])
        quiet_libraries()
        # Imported late: loading torch takes seconds, and neither `--help` nor a mistake in the arguments needs it.
        from experiments.arms import describe_arms, play_arms

        if arguments.plan:
            return describe_arms(recipe)
        folder = play_arms(recipe)
        return f"{folder.summary.read_text(encoding='utf-8')}\nEverything is in {folder.root}"

    set_up_logging()
    return run_command(run)


if __name__ == "__main__":
    sys.exit(main())
