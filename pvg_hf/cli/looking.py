"""`pvg report`, `show` and `compare`: what a run has found."""

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pvg_hf.cli.results import add_json, as_asked, check_output
from pvg_hf.cli.sources import find_folder, find_run
from pvg_hf.evaluation.catalogue import heading_of
from pvg_hf.game.cli import report_error, run_command
from pvg_hf.run.console import ScriptParser, quiet_libraries, set_up_logging
from pvg_hf.run.layout import REPORT

if TYPE_CHECKING:
    from pvg_hf.run.read import RoundData, RunData


def report(words: Sequence[str]) -> int:
    """
    Write the report of a run again, and print what it says first.

        pvg report quickstart

    A game writes it after each evaluated round.
    """
    parser = ScriptParser(report.__doc__, "pvg report")
    parser.add_argument("run", help="a run: its folder, its name in `runs`, or `org/run` on the Hub")
    options = parser.parse_args(words)

    def work() -> str:
        folder = find_folder(options.run)
        check_output(folder / REPORT)
        quiet_libraries()
        from pvg_hf.report.headline import write_headline
        from pvg_hf.report.page import write_report
        from pvg_hf.report.statements import describe_progress, write_verdict
        from pvg_hf.run.read import load_run

        page = write_report(folder)
        run = load_run(folder, solution_columns=())
        statements = [write_headline(run.evaluated), *write_verdict(run)]
        lines = [describe_progress(run), *(f"{one.subject}: {one.text}" for one in statements)]
        return "\n".join([*lines, str(page)])

    set_up_logging()
    return run_command(work)


def show(words: Sequence[str]) -> int:
    """
    Open the app on a run, to look at its solutions, its rounds and its verifiers, and to score texts of your own.

        pvg show quickstart
        pvg show org/run          # the last round of a published run

    Only this machine can reach it, unless GRADIO_SERVER_NAME is set.
    """
    from pvg_hf.app.__main__ import open_app, run_parser, serve_options

    parser = run_parser("pvg show", inspect.cleandoc(show.__doc__ or ""))
    options = parser.parse_args(words)
    try:
        options.run = find_run(options.run)
    except ValueError as err:
        return report_error(err)
    return open_app(parser, options, serve_options)


def compare(words: Sequence[str]) -> int:
    """
    Compare two rounds, of one or of two runs, by their figures and their recipes.

        pvg compare quickstart:0 quickstart:1
        pvg compare runs/a runs/b

    Differences are paired by problem where both sides have solved the same ones. Verifiers are compared at equal
    completeness.
    """
    parser = ScriptParser(compare.__doc__, "pvg compare")
    for which in ("first", "second"):
        parser.add_argument(which, metavar="RUN[:ROUND]", help=f"the {which} round (default: the last evaluated one)")
    add_json(parser)
    options = parser.parse_args(words)

    def work() -> str:
        sides = [_read_side(text) for text in (options.first, options.second)]
        from pvg_hf.evaluation.comparison import compare_rounds
        from pvg_hf.run.read import load_run
        from pvg_hf.run.resume import differences

        runs = [load_run(folder) for folder, _ in sides]
        names, rounds = zip(
            *(_choose_round(run, index) for run, (_, index) in zip(runs, sides, strict=True)), strict=True
        )
        compared = compare_rounds(*rounds)
        width = max(len(heading_of(one.name)) for one in compared)
        lines = [f"{'':{width}}  {names[0]}  |  {names[1]}  |  difference"]
        lines += [
            f"{heading_of(one.name):{width}}  {one.ours:.3f}  |  {one.theirs:.3f}  |  {one.difference:+.3f}"
            for one in compared
        ]
        changed = differences(*(run.recipe.to_dict() for run in runs))
        lines += [f"{key}: {ours}  |  {theirs}" for key, (ours, theirs) in changed.items()]
        figures = {one.name: {key: vars(one)[key] for key in _SIDES} for one in compared}
        return as_asked(options, "\n".join(lines), figures)

    set_up_logging()
    return run_command(work)


_SIDES = ("ours", "theirs", "difference")


def _read_side(text: str) -> tuple[Path, int | None]:
    run, colon, index = text.partition(":")
    if colon and not index.isdecimal():
        raise ValueError(f"`{text}` is no round of a run: write it as RUN:0.")
    return find_folder(run), int(index) if colon else None


def _choose_round(run: "RunData", round_index: int | None) -> "tuple[str, RoundData]":
    known = {data.round_index: data for data in run.evaluated}
    if not known or (round_index is not None and round_index not in known):
        what = "no evaluated round" if round_index is None else f"no evaluated round {round_index}"
        raise ValueError(f"The run `{run.recipe.name}` has {what}; it has {sorted(known) or 'none'}.")
    index = max(known) if round_index is None else round_index
    return f"{run.recipe.name}, round {index}", known[index]
