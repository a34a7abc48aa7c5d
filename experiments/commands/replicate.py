"""
Play or resume a recipe once per seed, evaluate the games, and tabulate the seeds.

    python experiments/commands/replicate.py recipes/quickstart.yaml --seeds 0 1 2
    python experiments/commands/replicate.py recipes/quickstart.yaml --seeds 0 1 2 --evaluate attacks.max_steps=100
    python experiments/commands/replicate.py recipes/arithmetic.yaml prover.reward=cgc name=arithmetic-cgc --begin-with arithmetic
    python experiments/commands/replicate.py recipes/arithmetic.yaml --only-tables --against arithmetic-cgc

Runs are kept in `OUTPUT_DIR/NAME-seed-K`; a finished one is not played again, and an unfinished one resumes. `--evaluate` adds all
evaluations of docs/evaluation.md, with fresh attackers against the verifiers of the first and the last round, and resumes, too. The tables
have means over seeds with the change over the rounds, each round's figures, and every verifier on every prover's solutions.
`OUTPUT_DIR/NAME-replication.json` has the raw figures. `NAME-rounds`, `NAME-pools` and `NAME-attacks` there are plots of the means,
`NAME-training` has each seed's training curves, and `NAME-against-OTHER` and `NAME-against-OTHER-training` are those of a comparison
(PNG, SVG, PDF).
"""

import sys

from pvg_hf.config import load_recipe
from pvg_hf.experimental.judging.evaluation_names import split_settings
from pvg_hf.game.cli import run_command
from pvg_hf.run.console import ScriptParser, quiet_libraries, set_up_logging


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("recipe", help="a YAML file")
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="section.key=value",
        help="settings that override the recipe, and with --evaluate settings of evaluations, such as attacks.max_steps=100",
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--workers", type=int, default=1, help="games played or evaluated at a time (default: 1)")
    parser.add_argument(
        "--begin-with",
        metavar="NAME",
        help="take over bootstrap and first verifier of another replicated recipe, where they are the same",
    )
    parser.add_argument("--evaluate", action="store_true", help="run all evaluations of the finished games")
    parser.add_argument(
        "--attack-all", action="store_true", help="with --evaluate: attack the verifiers of all rounds, not of two"
    )
    parser.add_argument(
        "--only-tables", action="store_true", help="play nothing, and tabulate what is finished so far"
    )
    parser.add_argument(
        "--against", metavar="NAME", help="compare with another replicated recipe in the same output_dir, seed by seed"
    )
    arguments = parser.parse_intermixed_args()
    if arguments.workers < 1:
        parser.error(f"--workers is {arguments.workers}; it must be at least 1.")
    if arguments.attack_all and not arguments.evaluate:
        parser.error("--attack-all belongs to --evaluate.")

    def run() -> str:
        of_evaluations, of_recipe = split_settings(arguments.overrides)
        if of_evaluations and not arguments.evaluate:
            raise ValueError(f"`{of_evaluations[0]}` is a setting of an evaluation, which `--evaluate` runs.")
        recipe = load_recipe(arguments.recipe, of_recipe)
        quiet_libraries()
        # Imported late: loading torch takes seconds, and neither `--help` nor a mistake in the arguments needs it.
        from experiments.replicates import evaluate_replicates
        from experiments.replication import replicate
        from experiments.replication_tables import tabulate_replication

        if not arguments.only_tables:
            replicate(recipe, arguments.seeds, num_workers=arguments.workers, beginning=arguments.begin_with)
        if arguments.evaluate:
            evaluate_replicates(
                recipe,
                arguments.seeds,
                overrides=of_evaluations,
                attacked="all" if arguments.attack_all else "ends",
                num_workers=arguments.workers,
            )
        return tabulate_replication(recipe, arguments.seeds, against=arguments.against)

    set_up_logging()
    return run_command(run)


if __name__ == "__main__":
    sys.exit(main())
