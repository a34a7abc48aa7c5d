"""
Write a page that sets a run beside the figures of Kirchner et al. 2024 (docs/evaluation.md).

    python experiments/commands/compare_with_paper.py runs/quickstart

The page is `paper.html` in the run's folder. Evaluations that `scripts/evaluate_run.py` has stored are part of it.
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
        from experiments.paper_page import write_paper_page

        return f"{write_paper_page(arguments.run)}"

    set_up_logging()
    return run_command(run)


if __name__ == "__main__":
    sys.exit(main())
