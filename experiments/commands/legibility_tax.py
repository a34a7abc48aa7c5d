"""
Compare a game's helpful prover with its base trained for correctness only on as many solutions (docs/evaluation.md).

    python experiments/commands/legibility_tax.py runs/quickstart
    python experiments/commands/legibility_tax.py runs/quickstart --round 0 legibility_tax.num_solutions=6400

The training takes about as long as a round, and resumes. The table is that of the evaluation `legibility_tax`, which is stored in the
run's folder and is part of its metrics, report and app.
"""

import sys
from pathlib import Path

from pvg_hf.game.cli import run_command
from pvg_hf.run.console import ScriptParser, quiet_libraries, set_up_logging
from pvg_hf.run.layout import RunFolder


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument("overrides", nargs="*", metavar="legibility_tax.key=value", help="settings of the evaluation")
    parser.add_argument(
        "--round", type=int, dest="round_index", metavar="K", help="a round, from 0 (default: the last one)"
    )
    parser.add_argument("--again", action="store_true", help="delete the stored result first; the training is kept")
    arguments = parser.parse_intermixed_args()

    def run() -> str:
        rounds = RunFolder.find(arguments.run).rounds("pool")
        quiet_libraries()
        # Imported late: loading torch takes seconds, and neither `--help` nor a mistake in the arguments needs it.
        from experiments.legibility_tax import tax_table
        from pvg_hf.experimental.judging.run_evaluations import evaluate_run

        (result,) = evaluate_run(
            arguments.run,
            round_index=max(rounds, default=0) if arguments.round_index is None else arguments.round_index,
            only=["legibility_tax"],
            overrides=arguments.overrides,
            again=arguments.again,
        )
        return tax_table(result)

    set_up_logging()
    return run_command(run)


if __name__ == "__main__":
    sys.exit(main())
