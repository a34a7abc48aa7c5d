"""
Play or resume a recipe once per seed, and tabulate the seeds.

    python scripts/replicate.py recipes/quickstart.yaml --seeds 0 1 2
    python scripts/replicate.py recipes/arithmetic.yaml prover.reward=cgc name=arithmetic-cgc --workers 2
    python scripts/replicate.py recipes/arithmetic.yaml --only-tables

Runs are kept in `OUTPUT_DIR/NAME-seed-K`; a finished one is not played again, and an unfinished one resumes. The tables have means over
seeds, each round's figures, and every verifier on every prover's solutions. `OUTPUT_DIR/NAME-replication.json` has the raw figures.
"""

import sys

from pvg_hf.config import load_recipe
from pvg_hf.game.console import ScriptParser, quiet_libraries, set_up_logging


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("recipe", help="a YAML file")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings that override the recipe")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--workers", type=int, default=1, help="games played at a time (default: 1)")
    parser.add_argument(
        "--only-tables", action="store_true", help="play nothing, and tabulate what is finished so far"
    )
    arguments = parser.parse_intermixed_args()

    set_up_logging()
    quiet_libraries()
    # Imported late: loading torch takes seconds, and neither `--help` nor a mistake in the arguments needs it.
    from pvg_hf.game.cli import run_command
    from pvg_hf.sweep.replication import replicate, tabulate_replication
    from pvg_hf.sweep.runner import CellsFailedError

    def run() -> str:
        recipe = load_recipe(arguments.recipe, arguments.overrides)
        if not arguments.only_tables:
            replicate(recipe, arguments.seeds, num_workers=arguments.workers)
        return tabulate_replication(recipe, arguments.seeds)

    return run_command(run, errors=(CellsFailedError,))


if __name__ == "__main__":
    sys.exit(main())
