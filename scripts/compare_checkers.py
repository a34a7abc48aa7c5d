"""
Play a recipe with checkers that err at one rate in different ways, and compare what the prover learns from them.

    python scripts/compare_checkers.py recipes/noise/same-rate.yaml
    python scripts/compare_checkers.py recipes/noise/same-rate.yaml prover.max_steps=50 --seeds 0
    python scripts/compare_checkers.py recipes/noise/same-rate.yaml --plan

Runs are kept in OUTPUT_DIR/NAME-ARM-seed-K; finished runs are not played again. The table is in OUTPUT_DIR/NAME.
"""

import sys

from pvg_hf.config import load_recipe
from pvg_hf.game.console import ScriptParser, quiet_libraries, set_up_logging


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("recipe", help="a YAML file with a section `arms`")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings that override the recipe")
    parser.add_argument("--seeds", type=int, nargs="+", help="seeds (default: those of the recipe)")
    parser.add_argument("--plan", action="store_true", help="check and describe a game of each arm, and stop")
    arguments = parser.parse_intermixed_args()

    set_up_logging()
    quiet_libraries()
    # Imported late: loading torch takes seconds, and neither `--help` nor a mistake in the arguments needs it.
    from pvg_hf.game.cli import run_command
    from pvg_hf.game.plan import describe_plan
    from pvg_hf.sweep.arms import describe_arms, play_arms, write_arms

    def play_all() -> str:
        recipe = load_recipe(arguments.recipe, arguments.overrides)
        if arguments.plan:
            plans = [f"{title}\n{describe_plan(one)}" for title, one in describe_arms(recipe, arguments.seeds)]
            return "\n\n".join(plans)
        folder = write_arms(recipe, play_arms(recipe, arguments.seeds))
        return f"{(folder / 'summary.md').read_text(encoding='utf-8')}\nEverything is in {folder}"

    return run_command(play_all)


if __name__ == "__main__":
    sys.exit(main())
