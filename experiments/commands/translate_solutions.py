"""
Decouple solving from legibility: a solver's solutions, and translations that keep their answers (docs/evaluation.md).

    python experiments/commands/translate_solutions.py solve runs/quickstart solved.jsonl
    python experiments/commands/translate_solutions.py translate runs/translator translated.jsonl

`solve` writes one solution by the run's helpful prover to each problem. A translation game then trains a translator of
them. `translate` writes that game's solutions to the test problems: a translation if it keeps the solver's answer, or else the
solver's own solution.
"""

import sys
from pathlib import Path

from pvg_hf.config.trust import admit_code
from pvg_hf.game.cli import run_command
from pvg_hf.run.console import ScriptParser, quiet_libraries, set_up_logging
from pvg_hf.run.layout import RunFolder


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("step", choices=("solve", "translate"), help="what is written")
    parser.add_argument("run", type=Path, help="the folder of the solver's or the translator's run")
    parser.add_argument("output", type=Path, help="the file to write, of JSON lines")
    parser.add_argument(
        "--round", type=int, dest="round_index", metavar="K", help="a round, from 0 (default: the last one)"
    )
    arguments = parser.parse_args()

    def run() -> str:
        RunFolder.find(arguments.run)  # refuses a wrong folder
        quiet_libraries()
        # Imported late: loading torch takes seconds, and neither `--help` nor a mistake in the arguments needs it.
        from experiments.translations import translated_solutions, write_solver_solutions, write_translations
        from pvg_hf.experimental.judging.judged_round import JudgedRun

        judged = JudgedRun.open(arguments.run)
        admit_code(judged.recipe)
        round_index = arguments.round_index
        if round_index is None:
            round_index = max(judged.folder.rounds("pool"), default=0)
        missing = judged.round(round_index).find_missing(("prover", "mint"))
        if missing is not None:
            raise ValueError(f"Round {round_index} cannot be used: {missing}.")
        if arguments.step == "solve":
            return f"{write_solver_solutions(judged, round_index, arguments.output)} solutions in {arguments.output}"
        translations = translated_solutions(judged, round_index)
        write_translations(translations, arguments.output)
        kept = sum(translation.is_translated for translation in translations)
        return f"{len(translations)} solutions in {arguments.output}: {kept} translations, {len(translations) - kept} of the solver's"

    set_up_logging()
    return run_command(run)


if __name__ == "__main__":
    sys.exit(main())
