"""
Divide GSM8K solutions of other models into thirds by problem, and make a small language model to start a verifier
from, for the example in docs/how-to/choose-among-answers.md.

    python -m experiments.gsm8k_choosing "$PVG_GSM8K_DIR" --output build/choosing

The folder holds `train.jsonl` and `model_solutions.jsonl` (problem_id, question, solution, is_correct). Writes
`base/`, `train.jsonl`, `labelled.jsonl` and `answers.jsonl`. Nothing is downloaded.
"""

import json
import sys
from pathlib import Path

from experiments.gsm8k_verifier import SOLUTIONS, make_language_models, read_lines
from pvg_hf.core.seeding import derive_seed
from pvg_hf.game.cli import run_command
from pvg_hf.run.console import ScriptParser, quiet_libraries, set_up_logging

PARTS = ("train", "labelled", "answers")


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", type=Path, required=True, help="folder to write to")
    parser.add_argument("--seed", type=int, default=0, help="of the division")
    parser.add_argument("--lm-steps", type=int, default=470, help="steps of 16 texts of the language model's training")
    arguments = parser.parse_args()
    set_up_logging()
    return run_command(lambda: prepare(arguments))


def prepare(arguments) -> str:
    rows = read_lines(arguments.folder / SOLUTIONS)
    problems = sorted(
        {row["problem_id"] for row in rows}, key=lambda problem_id: derive_seed(arguments.seed, problem_id)
    )
    arguments.output.mkdir(parents=True, exist_ok=True)
    for place, part in enumerate(PARTS):
        chosen = set(problems[place :: len(PARTS)])
        lines = [json.dumps(row, ensure_ascii=False) for row in rows if row["problem_id"] in chosen]
        (arguments.output / f"{part}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if not (arguments.output / "base").is_dir():
        quiet_libraries()
        make_language_models(arguments, arguments.output)
        (arguments.output / "trained").rename(arguments.output / "base")
    return str(arguments.output)


if __name__ == "__main__":
    sys.exit(main())
