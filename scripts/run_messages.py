"""
Play a message game: a prover that always argues for yes, and a verifier that decides.

    python scripts/run_messages.py recipes/messages/linear_f2.yaml
    accelerate launch --num_processes 2 scripts/run_messages.py recipes/messages/snli.yaml training.num_rounds=50
    python scripts/run_messages.py recipes/messages/linear_f2.yaml --plan
    python scripts/run_messages.py recipes/messages/linear_f2.yaml --status

The same command resumes a stopped run. The folder OUTPUT_DIR/NAME holds the players, judgement.json and report.html.
"""

import sys

from pvg_hf.experimental.messages.folder import describe_run
from pvg_hf.experimental.messages.recipe import load_message_recipe
from pvg_hf.game.cli import run_command
from pvg_hf.run.console import ScriptParser, is_main_process, quiet_libraries, set_up_logging


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("recipe", help="a YAML file")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings that override the recipe")
    parser.add_argument("--plan", action="store_true", help="check the recipe, print what would be played, and stop")
    parser.add_argument("--status", action="store_true", help="print the state of the run's folder, and stop")
    arguments = parser.parse_intermixed_args()

    def run() -> str:
        recipe = load_message_recipe(arguments.recipe, arguments.overrides)
        if arguments.status:
            return describe_run(recipe)
        quiet_libraries()
        # Imported late: loading torch takes seconds, and neither `--help` nor a mistake in the arguments needs it.
        from pvg_hf.experimental.messages.plan import describe_message_plan
        from pvg_hf.experimental.messages.run import play_messages

        if arguments.plan:
            return describe_message_plan(recipe)
        play_messages(recipe, progress=is_main_process() and sys.stderr.isatty())
        return describe_run(recipe) if is_main_process() else ""

    set_up_logging()
    return run_command(run)


if __name__ == "__main__":
    sys.exit(main())
