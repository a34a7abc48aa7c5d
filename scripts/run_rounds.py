"""
Play a prover-verifier game.

    python scripts/run_rounds.py recipes/quickstart.yaml
    accelerate launch --num_processes 2 scripts/run_rounds.py recipes/gsm8k.yaml prover.beta=0.1 seed=1
    python scripts/run_rounds.py recipes/gsm8k.yaml --plan
    python scripts/run_rounds.py recipes/gsm8k.yaml --plan --for rtx4090
    python scripts/run_rounds.py recipes/gsm8k.yaml --pilot
    python scripts/run_rounds.py recipes/gsm8k.yaml --status
    python scripts/run_rounds.py recipes/gsm8k.yaml --phase prover --round 2

The same command resumes a stopped run.
"""

import gc
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pvg_hf.check.graphics_cards import find_card
from pvg_hf.config import Recipe, load_recipe
from pvg_hf.config.trust import trust_recipe
from pvg_hf.game.cli import ENDING_ERRORS, INTERRUPTED, report_error
from pvg_hf.game.interrupt import GameInterrupted
from pvg_hf.game.status import describe_status, describe_stop
from pvg_hf.run.console import ScriptParser, is_main_process, print_result, quiet_libraries, set_up_logging
from pvg_hf.run.environment import command_line, has_default_threads, num_cores, script_line
from pvg_hf.run.layout import RunFolder, choose_phases
from pvg_hf.run.resume import extended_recipe

if TYPE_CHECKING:
    from pvg_hf.game.context import GameCallback

logger = logging.getLogger("pvg_hf")  # this file's own name is `__main__`, of which nothing is logged


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("recipe", help="a YAML file")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings that override the recipe")
    parser.add_argument("--phase", help="play only this phase, e.g. prover")
    parser.add_argument("--round", type=int, dest="round_index", metavar="K", help="the round of --phase, from 0")
    parser.add_argument("--plan", action="store_true", help="check the recipe, print what would be played, and stop")
    parser.add_argument(
        "--for", dest="card", metavar="CARD", help="plan for this GPU, e.g. rtx4090, instead of this machine"
    )
    parser.add_argument(
        "--trust",
        action="store_true",
        help="allow the code that the recipe of a pulled run names to run (docs/security.md)",
    )
    parser.add_argument(
        "--pilot", action="store_true", help="let the base prover solve a few problems, print what it wrote, and stop"
    )
    parser.add_argument("--status", action="store_true", help="print the state of the run's folder, and stop")
    arguments = parser.parse_intermixed_args()  # options may be mixed with overrides

    if arguments.card and not arguments.plan:
        parser.error("--for belongs to --plan")

    set_up_logging()
    try:
        recipe = extended_recipe(load_recipe(arguments.recipe, arguments.overrides), arguments.overrides)
        if arguments.trust:
            trust(arguments.recipe, recipe)
        if arguments.status:
            return tell(describe_status(recipe, script_line(without=["--status"])))
        card = find_card(arguments.card) if arguments.card else None
        choose_phases(recipe, arguments.phase, arguments.round_index)  # refuses a wrong name
        quiet_libraries()  # loads torch, and so comes after all that can be wrong on the command line
        if arguments.plan:
            from pvg_hf.check.plan import describe_plan

            return tell(describe_plan(recipe, card))
        if arguments.pilot:
            return run_pilot(recipe)
        return run_game(recipe, phase=arguments.phase, round_index=arguments.round_index)
    except ENDING_ERRORS as err:
        return report_error(err)
    except KeyboardInterrupt:  # before the game listens for it
        sys.stderr.write("Stopped before anything was played.\n")
        return INTERRUPTED


def run_game(recipe: Recipe, *, phase: str | None, round_index: int | None) -> int:
    """Play a game, log where its report is or how to resume, and return the exit status."""
    # Imported late: loading torch takes seconds.
    from accelerate import PartialState

    from pvg_hf.game.play import play

    use_all_cores()
    logger.info("Playing %s into %s", recipe.name, RunFolder.of(recipe).root)
    try:
        folder = play(recipe, phase=phase, round_index=round_index, callbacks=callbacks_of(recipe))
    except GameInterrupted:
        logger.warning("Stopped. %s", describe_stop(recipe))
        if is_main_process():  # not by the log, which breaks long lines on a terminal
            sys.stderr.write(f"Continue with the same command: {command_line()}\n")
        gc.freeze()  # else the interpreter looks through all objects of the libraries before it ends, which takes seconds
        return INTERRUPTED
    if PartialState().is_main_process:
        report = folder.report
        logger.info("Report: %s", report if report.exists() else f"none; the run is in {folder.root}")
    return 0


def run_pilot(recipe: Recipe) -> int:
    """Run the pilot of a game alone, or read the one that is kept; print it, and return the exit status."""
    from pvg_hf.game.play import play
    from pvg_hf.report.pilot_findings import Pilot

    use_all_cores()
    try:
        folder = play(recipe, only_pilot=True)
    except GameInterrupted:
        logger.warning("Stopped; nothing of the pilot is kept.")
        gc.freeze()  # as in `run_game`
        return INTERRUPTED
    pilot = Pilot(recipe, folder.read_pilot()["rows"])
    tell(pilot.describe())
    pilot.check()
    return 0


def use_all_cores() -> None:
    import torch

    if has_default_threads() and not torch.cuda.is_available():  # no other process competes for the cores
        torch.set_num_threads(num_cores())


def trust(path: str, recipe: Recipe) -> None:
    for line in trust_recipe(Path(path), recipe, is_recorded=is_main_process()):
        logger.info("Trusted from now on: %s", line)


def callbacks_of(recipe: Recipe) -> "list[GameCallback]":
    if not (recipe.hub.push and recipe.hub.space):
        return []
    from pvg_hf.app.space import SpaceCallback

    return [SpaceCallback()]


def tell(text: str) -> int:
    if is_main_process():
        print_result(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
