"""
Play a recipe with verifiers that start from different models, and compare them.

    python experiments/commands/compare_base_verifiers.py recipes/quickstart.yaml --seeds 0 1 2
    python experiments/commands/compare_base_verifiers.py recipes/quickstart.yaml num_rounds=3 --models arithmetic arithmetic-judge

The same command resumes a stopped comparison: finished games are not played again. They are in OUTPUT_DIR/NAME-MODEL-seed-K. The
folder OUTPUT_DIR/NAME-bases holds summary.md and games.csv.
"""

import sys

from pvg_hf.config import load_recipe
from pvg_hf.game.cli import run_command
from pvg_hf.run.console import ScriptParser, quiet_libraries, set_up_logging

MODELS = ["arithmetic", "arithmetic-small", "arithmetic-judge", "arithmetic-judge-small"]


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("recipe", help="a YAML file")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings that override the recipe")
    parser.add_argument(
        "--models", nargs="+", default=MODELS, help=f"packaged models, Hub ids or folders (default: {MODELS})"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    arguments = parser.parse_intermixed_args()

    def run() -> str:
        recipe = load_recipe(arguments.recipe, arguments.overrides)
        quiet_libraries()
        # Imported late: loading torch takes seconds, and neither `--help` nor a mistake in the arguments needs it.
        from experiments.base_verifiers import play_bases

        folder = play_bases(recipe, arguments.models, arguments.seeds)
        return f"{folder.summary.read_text(encoding='utf-8')}\nEverything is in {folder.root}"

    set_up_logging()
    return run_command(run)


if __name__ == "__main__":
    sys.exit(main())
