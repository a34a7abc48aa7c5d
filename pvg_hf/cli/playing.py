"""`pvg play`, `plan`, `pilot` and `status`: a game from its recipe."""

import gc
import logging
import os
import shlex
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pvg_hf.check.graphics_cards import find_card
from pvg_hf.cli.results import add_json, as_asked
from pvg_hf.cli.sources import find_recipe, is_kept, moved_to
from pvg_hf.config import Recipe, load_recipe
from pvg_hf.config.load import load_kept_recipe, read_yaml
from pvg_hf.config.sections import HubConfig
from pvg_hf.config.trust import read_origin, trust_recipe
from pvg_hf.core.commands import play_command, pvg_command
from pvg_hf.game.cli import ENDING_ERRORS, INTERRUPTED, report_error, run_command
from pvg_hf.game.interrupt import GameInterrupted
from pvg_hf.game.status import describe_status, describe_stop, status_figures
from pvg_hf.hub.locate import is_published_name
from pvg_hf.run.console import ScriptParser, is_main_process, print_result, quiet_libraries, set_up_logging
from pvg_hf.run.environment import command_line, has_default_threads, num_cores, script_line
from pvg_hf.run.layout import PhaseKey, RunFolder, choose_phases, unfinished
from pvg_hf.run.resume import extended_recipe

if TYPE_CHECKING:
    from pvg_hf.game.context import GameCallback

logger = logging.getLogger(__name__)


def play(words: Sequence[str]) -> int:
    """
    Play a game, or resume it: the same command does both. Ctrl-C stops it within seconds.

        pvg play quickstart
        pvg play gsm8k prover.beta=0.1 seed=1
        pvg play gsm8k --phase prover --round 2
        accelerate launch --num_processes 2 -m pvg_hf play gsm8k

    A recipe is a YAML file, the name of one that comes with the package, or the folder of a run. Recipes of message
    games are played, too.
    """
    parser = _recipe_parser("play", play)
    parser.add_argument("--phase", help="play only this phase, e.g. prover")
    parser.add_argument("--round", type=int, dest="round_index", metavar="K", help="the round of --phase, from 0")
    parser.add_argument(
        "--launcher",
        metavar="COMMAND",
        help=(
            "start each phase in processes of its own by this command, as vLLM in colocate mode and DeepSpeed need it,"
            " e.g. 'accelerate launch'"
        ),
    )
    # Each is a command now, and was an option of scripts/run_rounds.py.
    for option in ("plan", "pilot", "status"):
        parser.add_argument(f"--{option}", action="store_true", help=f"the same as `pvg {option}`")
    add_json(parser, "what --plan, --pilot or --status finds")
    parser.add_argument("--for", dest="card", metavar="CARD", help="with --plan: plan for this GPU, e.g. rtx4090")
    options = parser.parse_intermixed_args(words)
    if options.card and not options.plan:
        parser.error("--for belongs to --plan")
    for option, action in (("plan", _plan), ("pilot", _pilot), ("status", _status)):
        if getattr(options, option):
            return _on_recipe(options, action)
    return _on_recipe(options, _play)


def plan(words: Sequence[str]) -> int:
    """
    Check a recipe, and say what playing it takes, before anything is played: phases, tokens, memory and time.

        pvg plan gsm8k
        pvg plan gsm8k prover.num_generations=16 --for rtx4090

    Memory is estimated; times follow from rates that earlier phases or games on this machine have measured.
    """
    parser = _recipe_parser("plan", plan)
    parser.add_argument("--for", dest="card", metavar="CARD", help="plan for this GPU, e.g. rtx4090")
    add_json(parser)
    return _on_recipe(parser.parse_intermixed_args(words), _plan)


def pilot(words: Sequence[str]) -> int:
    """
    Let the base prover solve a few problems, and print what it wrote and what to change.

        pvg pilot gsm8k
        pvg pilot gsm8k prover.temperature=0.7
    """
    parser = _recipe_parser("pilot", pilot)
    add_json(parser)
    return _on_recipe(parser.parse_intermixed_args(words), _pilot)


def status(words: Sequence[str]) -> int:
    """
    Say how far a game is, and how to resume it.

        pvg status quickstart
        pvg status runs/gsm8k
    """
    parser = _recipe_parser("status", status)
    add_json(parser)
    return _on_recipe(parser.parse_intermixed_args(words), _status)


def _recipe_parser(name: str, command: Callable[[Sequence[str]], int]) -> ScriptParser:
    parser = ScriptParser(command.__doc__, f"pvg {name}")
    parser.add_argument(
        "recipe",
        help=(
            "a YAML file, the name of a packaged recipe, or a run: its folder, its name in `runs`, or `org/run` on"
            " the Hub"
        ),
    )
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings that override the recipe")
    parser.add_argument(
        "--trust",
        action="store_true",
        help="consent to what the recipe of a pulled run does beyond its run (docs/reference/security.md)",
    )
    return parser


def _on_recipe(options: Namespace, action: Callable[[Recipe, Namespace], int]) -> int:
    set_up_logging()
    try:
        path = find_recipe(options.recipe, prefers_run=action is _status)
        if not is_published_name(options.recipe) or action is _status:  # else the download would be played on
            options.overrides = moved_to(options.recipe, path, options.overrides)
        if not is_kept(path) and "world" in read_yaml(path):
            return run_command(lambda: _play_messages(path, options, action))
        load = load_kept_recipe if is_kept(path) else load_recipe
        recipe = extended_recipe(load(path, options.overrides), options.overrides)
        if options.trust:
            for line in trust_recipe(path, recipe, is_recorded=is_main_process()):
                logger.info("Trusted from now on: %s", line)
        return action(recipe, options)
    except ENDING_ERRORS as err:
        return report_error(err)


def _play(recipe: Recipe, options: Namespace) -> int:
    choose_phases(recipe, options.phase, options.round_index)  # refuses a wrong name
    if options.launcher:
        return _play_in_processes(recipe, options)
    quiet_libraries()  # loads torch, and so comes after all that can be wrong on the command line
    return _run_game(recipe, phase=options.phase, round_index=options.round_index)


def _plan(recipe: Recipe, options: Namespace) -> int:
    card = find_card(options.card) if options.card else None
    quiet_libraries()
    from pvg_hf.check.plan import plan_game

    planned = plan_game(recipe, card)
    return _print(as_asked(options, planned.describe(), planned.figures()))


def _pilot(recipe: Recipe, options: Namespace) -> int:
    quiet_libraries()
    return _run_pilot(recipe, options)


def _status(recipe: Recipe, options: Namespace) -> int:
    return _print(
        as_asked(options, describe_status(recipe, script_line(without=["--status"])), status_figures(recipe))
    )


def _print(text: str) -> int:
    if is_main_process():
        print_result(text)
    return 0


def _run_game(recipe: Recipe, *, phase: str | None, round_index: int | None) -> int:
    """Play a game, log where its report is or how to resume, and return the exit status."""
    # Imported late: loading torch takes seconds.
    from accelerate import PartialState

    from pvg_hf.game.play import play

    _choose_threads(RunFolder.of(recipe))
    logger.info("Playing %s into %s", recipe.name, RunFolder.of(recipe).root)
    try:
        folder = play(recipe, phase=phase, round_index=round_index, callbacks=_callbacks_of(recipe.hub))
    except GameInterrupted:
        logger.warning("Stopped. %s", describe_stop(recipe))
        if is_main_process():  # not by the log, which breaks long lines on a terminal
            sys.stderr.write(f"Continue with the same command: {command_line()}\n")
        # Else the interpreter looks through all objects of the libraries before it ends, which takes seconds.
        gc.freeze()
        return INTERRUPTED
    if PartialState().is_main_process:
        if unfinished(recipe):
            report = folder.report
            logger.info("Report: %s", report if report.exists() else f"none; the run is in {folder.root}")
        else:
            print_result(_describe_end(folder))
    return 0


def _describe_end(folder: RunFolder) -> str:
    """Sum up a finished game, and name its report and the next commands."""
    from pvg_hf.report.statements import summarise
    from pvg_hf.run.read import load_run

    run = load_run(folder.root, solution_columns=())
    more = play_command(folder.root, f"num_rounds={run.recipe.num_rounds + 1}")
    report = [f"Report: {folder.report}"] if folder.report.exists() else []
    return "\n".join(
        [
            *summarise(run.evaluated),
            *report,
            f"Look at the solutions: {pvg_command('show', folder.root)}",
            f"Play another round: {more}",
        ]
    )


def _run_pilot(recipe: Recipe, options: Namespace) -> int:
    """Run the pilot of a game alone, or read the one that is kept; print it, and return the exit status."""
    from pvg_hf.game.play import play
    from pvg_hf.report.pilot_findings import Pilot

    _choose_threads(RunFolder.of(recipe))
    try:
        folder = play(recipe, only_pilot=True)
    except GameInterrupted:
        logger.warning("Stopped; finished roles of the pilot are kept.")
        gc.freeze()  # as in `run_game`
        return INTERRUPTED
    pilot = Pilot(recipe, folder.read_pilot()["rows"])
    _print(as_asked(options, pilot.describe(), pilot.figures()))
    pilot.check()
    return 0


def _choose_threads(folder: RunFolder) -> None:
    """
    Compute with as many threads as the run did before, for equal bytes, unless `OMP_NUM_THREADS` is set. A launcher's
    only process on a CPU begins a run with all cores.
    """
    import torch

    is_set = "OMP_NUM_THREADS" in os.environ and not has_default_threads()
    if is_set or torch.cuda.is_available():
        return
    before = None if read_origin(folder.root) else folder.read_environment().get("num_threads")
    if before is not None and before <= num_cores():
        torch.set_num_threads(before)
    elif has_default_threads():  # no other process competes for the cores
        torch.set_num_threads(num_cores())


def _callbacks_of(hub: HubConfig) -> "list[GameCallback]":
    if not (hub.push and hub.space):
        return []
    from pvg_hf.app.space import SpaceCallback

    return [SpaceCallback()]


def _play_in_processes(recipe: Recipe, options: Namespace) -> int:
    """
    Play phase by phase, each in processes that `options.launcher` starts; ends with the status of one that fails.
    """
    from pvg_hf.game.pilot import is_pilot_due  # loads torch

    phases = unfinished(recipe)
    parts = [
        ["--phase", phase.name, *([] if phase.round_index is None else ["--round", str(phase.round_index)])]
        for phase in phases
    ]
    if is_pilot_due(recipe, RunFolder.of(recipe), phases):
        parts.insert(phases.index(PhaseKey("bootstrap")), ["--pilot"])  # after a warm-up, if there is one
    for part in parts:
        command = [*shlex.split(options.launcher), "-m", "pvg_hf", "play", options.recipe, *options.overrides, *part]
        ended = subprocess.run(command).returncode
        if ended:
            return ended
    return 0


def _play_messages(path: Path, options: Namespace, action: Callable[[Recipe, Namespace], int]) -> str:
    """Play, plan or describe a message game, which has recipes of its own."""
    from pvg_hf.experimental.messages.folder import describe_run
    from pvg_hf.experimental.messages.recipe import load_message_recipe

    if action is _pilot or options.json:
        lacks = "no pilot" if action is _pilot else "no JSON of its state and plan: omit `--json`"
        raise ValueError(f"`{path}` is the recipe of a message game, which has {lacks}.")
    recipe = load_message_recipe(path, options.overrides)
    if action is _status:
        return describe_run(recipe)
    quiet_libraries()
    from pvg_hf.experimental.messages.run import describe_message_plan, play_messages

    if action is _plan:
        return describe_message_plan(recipe)
    play_messages(recipe, progress=is_main_process() and sys.stderr.isatty())
    return describe_run(recipe) if is_main_process() else ""
