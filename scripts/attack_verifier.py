"""
Train fresh attackers against a frozen verifier, e.g. one that was pulled from the Hub (docs/experimental/attacks.md).

    python scripts/attack_verifier.py recipes/attack.yaml
    python scripts/attack_verifier.py recipes/attack.yaml attack.verifier=ana/quickstart-verifier attack.revision=round-001

The section `attack` of the recipe names the verifier; task, split and prover are the attackers'. The same command resumes the
attacks. To attack the rounds of a run, use scripts/evaluate_run.py RUN --only attacks.
"""

import sys

from pvg_hf.config import load_recipe
from pvg_hf.game.cli import run_command
from pvg_hf.run.console import ScriptParser, quiet_libraries, set_up_logging


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("recipe", help="a YAML file with a section `attack`")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings that override the recipe")
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: one per core; one with a GPU)")
    parser.add_argument(
        "--executor", metavar="MODULE:NAME", help="a function that returns an executor, e.g. a cluster's"
    )
    arguments = parser.parse_intermixed_args()
    if arguments.workers is not None and arguments.workers < 1:
        parser.error(f"--workers is {arguments.workers}; it must be at least 1.")

    def run() -> str:
        recipe = load_recipe(arguments.recipe, arguments.overrides)
        quiet_libraries()
        # Imported late: loading torch takes seconds, and neither `--help` nor a mistake in the arguments needs it.
        from pvg_hf.experimental.attacks.verifier_attack import SUMMARY, attack_verifier
        from pvg_hf.run.jobs import load_executor

        executor = load_executor(arguments.executor) if arguments.executor else None
        folder = attack_verifier(recipe, num_workers=arguments.workers, executor=executor)
        return f"{(folder / SUMMARY).read_text(encoding='utf-8')}\nEverything is in {folder}"

    set_up_logging()
    return run_command(run)


if __name__ == "__main__":
    sys.exit(main())
