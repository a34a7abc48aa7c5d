"""`pvg export`, `push`, `pull` and `space`: players and runs for other programs and other people."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pvg_hf.cli.results import check_output
from pvg_hf.cli.sources import check_new_folder, find_folder, find_run, find_verifier, local_verifier
from pvg_hf.config.load import load_kept_recipe
from pvg_hf.config.trust import admit_recipe
from pvg_hf.game.cli import run_command
from pvg_hf.hub.locate import PUBLISHED_NAME, is_published_name
from pvg_hf.run.console import ScriptParser, print_result, quiet_libraries, set_up_logging
from pvg_hf.run.layout import RunFolder


def export(words: Sequence[str]) -> int:
    """
    Write a player as a checkpoint of full weights, with its adapter merged, for servers such as vLLM.

        pvg export gsm8k --player prover --checkpoint best-helpful --output exported/prover
        pvg export my-verifier --player verifier --output exported/verifier
    """
    parser = ScriptParser(export.__doc__, "pvg export")
    parser.add_argument(
        "run",
        help="a run: its folder, its name in `runs`, or `org/run` on the Hub; or the folder of a verifier, or its id",
    )
    parser.add_argument("--player", choices=["prover", "verifier"], default="prover", help="(default: %(default)s)")
    parser.add_argument(
        "--round", type=int, dest="round_index", metavar="K", help="round, from 0 (default: the last trained one)"
    )
    parser.add_argument(
        "--checkpoint",
        choices=["last", "best-helpful", "helpful", "sneaky"],
        help="checkpoint of the prover (default: `last`, or `helpful` if each role has a separate adapter)",
    )
    parser.add_argument("--output", type=Path, required=True, help="folder to create")
    parser.add_argument(
        "--dtype",
        choices=["bfloat16", "float16", "float32"],
        help=(
            "type of the weights (default: bfloat16 for a prover, and float32 for a verifier, to keep its threshold"
            " valid)"
        ),
    )
    options = parser.parse_args(words)

    def work() -> str:
        check_new_folder(options.output)
        named = options.run if options.round_index is None else f"{options.run}:{options.round_index}"
        if options.player == "verifier":
            source = find_verifier(named)
        else:
            folder = RunFolder(find_folder(options.run))
            source = str(folder.player("prover", options.round_index, options.checkpoint))
        quiet_libraries()
        import torch

        from pvg_hf.models.export import export_merged

        dtype = options.dtype and getattr(torch, options.dtype)
        source = local_verifier(source) if options.player == "verifier" else source
        export_merged(Path(source), options.output, player=options.player, dtype=dtype)
        return str(options.output)

    set_up_logging()
    return run_command(work)


def push(words: Sequence[str]) -> int:
    """
    Publish the rounds of a run on the Hub, except those that are already published.

        pvg push quickstart
        pvg push quickstart hub.namespace=ana hub.private=false --round 1

    Settings override those of the recipe in the run's folder. The token is that of `hf auth login`, or HF_TOKEN.
    """
    parser = ScriptParser(push.__doc__, "pvg push")
    parser.add_argument("run", help="folder of a run, or its name in `runs`")
    parser.add_argument("overrides", nargs="*", metavar="hub.key=value", help="settings that override the recipe")
    parser.add_argument(
        "--round", type=int, dest="round_index", metavar="K", help="publish only this round (default: all)"
    )
    options = parser.parse_intermixed_args(words)

    def work() -> str:
        run = find_run(options.run)
        if is_published_name(run):
            raise ValueError(f"`{run}` is published already. To continue it here: `pvg pull {run}`.")
        folder = Path(run)
        recipe = load_kept_recipe(RunFolder(folder).recipe, options.overrides)
        admit_recipe(recipe, "hub", "data")
        quiet_libraries()
        from pvg_hf.hub.publication import publishable_rounds
        from pvg_hf.hub.push import push_round

        rounds = publishable_rounds(folder) if options.round_index is None else [options.round_index]
        if not rounds:
            raise ValueError(f"{folder} has no round that is evaluated and has its weights.")
        for round_index in rounds:
            print_result(f"round {round_index}: {push_round(folder, round_index, hub=recipe.hub)}")
        return ""

    set_up_logging()
    return run_command(work)


def pull(words: Sequence[str]) -> int:
    """
    Download a published round as a run's folder, to read it or to continue the game.

        pvg pull ana/quickstart             # the last one
        pvg pull ana/quickstart 2 --with-earlier-players
    """
    parser = ScriptParser(pull.__doc__, "pvg pull")
    parser.add_argument("run", help="NAMESPACE/RUN, the prefix of the repositories' names")
    parser.add_argument(
        "round_index", nargs="?", default="latest", type=_read_round, metavar="round", help="a number, or `latest`"
    )
    parser.add_argument("--output-dir", default="runs", help="parent of the run's folder (default: %(default)s)")
    parser.add_argument(
        "--with-earlier-players", action="store_true", help="download the players of earlier rounds, too"
    )
    options = parser.parse_args(words)
    if not PUBLISHED_NAME.fullmatch(options.run):
        parser.error(f"{options.run} is no name of a published run, such as ana/quickstart")

    def work() -> str:
        check_output(Path(options.output_dir), is_folder=True)
        quiet_libraries()
        from pvg_hf.hub.pull import pull_round

        return str(pull_round(**vars(options)))

    set_up_logging()
    return run_command(work)


def _read_round(text: str) -> int | str:
    return text if text == "latest" else int(text)


def space(words: Sequence[str]) -> int:
    """
    Publish the app on a run as a Space, which is private by default.

        pvg space quickstart org/quickstart-app
        pvg space org/run org/run-study --study --study-repo org/run-answers
        pvg space quickstart --output build/space      # write the folder, push nothing

    The token is that of `hf auth login`, or HF_TOKEN. The Space needs a secret HF_TOKEN in its settings if a study
    commits answers or the published run is private.
    """
    parser = ScriptParser(space.__doc__, "pvg space")
    parser.add_argument("run", help="a run, which is copied into the Space, or the name of a published run")
    parser.add_argument("space", nargs="?", help="ORG/NAME of the Space")
    parser.add_argument("--output", type=Path, help="write the Space's files to this folder, and push nothing")
    parser.add_argument("--public", action="store_true", help="make a new Space public")
    parser.add_argument(
        "--study", action="store_true", help="serve the legibility study (experimental), and not the app"
    )
    parser.add_argument("--study-participants", type=int, metavar="N", help="maximum number of participants")
    parser.add_argument("--study-repo", metavar="ORG/NAME", help="dataset repository that answers are committed to")
    options = parser.parse_args(words)
    if (options.space is None) == (options.output is None):
        parser.error("name a Space, or a folder with --output")
    of_app = ["--participants", str(options.study_participants)] if options.study_participants else []
    of_app += ["--repo", options.study_repo] if options.study_repo else []
    if of_app and not options.study:
        parser.error("--study-participants and --study-repo need --study")

    def work() -> str:
        run = find_run(options.run)
        check_output(options.output, is_folder=True)
        quiet_libraries()
        from pvg_hf.app.space import APP, build_space, push_space

        app = "pvg_hf.experimental.study" if options.study else APP
        if options.output:
            return str(build_space(run, options.output, tuple(of_app), app=app))
        warn = partial(print, file=sys.stderr)
        return push_space(run, options.space, tuple(of_app), app=app, is_private=not options.public, warn=warn)

    set_up_logging()
    return run_command(work)
