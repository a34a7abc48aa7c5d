"""
Play a recipe once per seed and print tables of the results, with intervals: each round's figures, and every verifier on
every prover's solutions.

    python scripts/play_seeds.py recipes/quickstart.yaml --seeds 0 1 2

Runs are kept in `OUTPUT_DIR/NAME-seed-K`; a finished one is not played again.
"""

import sys

from pvg_hf.config import load_recipe
from pvg_hf.game.console import ScriptParser, quiet_libraries, set_up_logging


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("recipe", help="a YAML file")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings that override the recipe")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    arguments = parser.parse_intermixed_args()

    set_up_logging()
    quiet_libraries()
    # Imported late: loading torch takes seconds, and neither `--help` nor a mistake in the arguments needs it.
    from pvg_hf import play
    from pvg_hf.evaluation.seeds import seeds_pools_table, seeds_table
    from pvg_hf.game.cli import run_command

    def play_all() -> str:
        folders = []
        for seed in arguments.seeds:
            name = f"name={load_recipe(arguments.recipe, arguments.overrides).name}-seed-{seed}"
            folders.append(play(load_recipe(arguments.recipe, [*arguments.overrides, name, f"seed={seed}"])).root)
        accepted = "Share of sneaky mistakes accepted at 95 % completeness, by verifier and prover:"
        return f"{seeds_table(folders)}\n\n{accepted}\n\n{seeds_pools_table(folders)}"

    return run_command(play_all)


if __name__ == "__main__":
    sys.exit(main())
