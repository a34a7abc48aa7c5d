"""
Play a recipe with a checker that errs systematically, and a twin with equally many random errors, and compare them.

    python experiments/commands/structured_noise.py recipes/noise/structured.yaml
    python experiments/commands/structured_noise.py recipes/noise/structured.yaml num_rounds=3 --seeds 0 1 2

Runs are kept in OUTPUT_DIR/NAME-structured-seed-K and OUTPUT_DIR/NAME-random-seed-K; finished runs are not played again.
The table, the steps and the plot are in OUTPUT_DIR/NAME.
"""

import sys

from pvg_hf.config import load_recipe
from pvg_hf.game.cli import run_command
from pvg_hf.run.console import ScriptParser, quiet_libraries, set_up_logging


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("recipe", help="a YAML file whose `noise.checker.base` errs by itself")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings that override the recipe")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="seeds; two games each (default: 0)")
    arguments = parser.parse_intermixed_args()

    def play_all() -> str:
        recipe = load_recipe(arguments.recipe, arguments.overrides)
        quiet_libraries()
        # Imported late: loading torch takes seconds, and neither `--help` nor a mistake in the arguments needs it.
        from experiments.twins import play_twins, write_twins

        folder = write_twins(recipe, [play_twins(recipe, seed) for seed in arguments.seeds])
        return f"{(folder / 'summary.md').read_text(encoding='utf-8')}\nEverything is in {folder}"

    set_up_logging()
    return run_command(play_all)


if __name__ == "__main__":
    sys.exit(main())
