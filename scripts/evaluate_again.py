"""
Evaluate all rounds of a run again, so that a run of an older version has the figures of this one.

    python scripts/evaluate_again.py runs/quickstart

Nothing is trained or written by a prover. The verifiers of all evaluated rounds must still be in the run's folder.
"""

import sys
from pathlib import Path

from pvg_hf.game.cli import run_command
from pvg_hf.run.console import ScriptParser, quiet_libraries, set_up_logging
from pvg_hf.run.layout import RunFolder


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("run", type=Path, help="the run's folder")
    arguments = parser.parse_args()

    def run() -> str:
        RunFolder.find(arguments.run)  # refuses a wrong folder
        quiet_libraries()
        # Imported late: loading torch takes seconds, and neither `--help` nor a mistake in the arguments needs it.
        from pvg_hf.game.play import evaluate_again

        return f"Report: {evaluate_again(arguments.run).report}"

    set_up_logging()
    return run_command(run)


if __name__ == "__main__":
    sys.exit(main())
