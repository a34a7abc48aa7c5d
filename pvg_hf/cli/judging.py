"""`pvg evaluate`, `attack` and `sweep` (experimental): more about finished rounds, verifiers and noise."""

import json
from argparse import Namespace
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pvg_hf.cli.results import add_json, as_asked
from pvg_hf.cli.sources import find_folder, find_recipe, find_verifier
from pvg_hf.config import load_recipe
from pvg_hf.config.load import read_yaml
from pvg_hf.config.trust import admit_recipe
from pvg_hf.core.integrity import read_json
from pvg_hf.game.cli import run_command
from pvg_hf.run.console import ScriptParser, quiet_libraries, set_up_logging

if TYPE_CHECKING:
    from pvg_hf.run.jobs import JobFolder


def evaluate(words: Sequence[str]) -> int:
    """
    Evaluate finished rounds of a run with evaluations that need the players (docs/reference/figures.md).

        pvg evaluate quickstart
        pvg evaluate quickstart --round 1 --only best_of_n best_of_n.num_samples=2560
        pvg evaluate quickstart --only attacks "attacks.rewards=[src]" --workers 2
        pvg evaluate --list

    Results are stored in the run's folder, and are part of its metrics, report and app. The same command resumes a
    stopped evaluation.
    """
    from pvg_hf.experimental.judging import EVALUATION_NAMES

    parser = _worker_parser("evaluate", evaluate)
    parser.add_argument("run", nargs="?", help="a run: its folder, its name in `runs`, or `org/run` on the Hub")
    parser.add_argument("overrides", nargs="*", metavar="NAME.key=value", help="settings of the evaluations")
    parser.add_argument(
        "--round",
        type=_read_round,
        default="all",
        dest="round_index",
        metavar="K",
        help="a round, from 0, or `all` (the default)",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        choices=EVALUATION_NAMES,
        metavar="NAME",
        help="an evaluation; may be repeated (default: all that are not costly)",
    )
    parser.add_argument(
        "--again", action="store_true", help="delete the stored results of these evaluations and rounds first"
    )
    parser.add_argument("--list", action="store_true", dest="is_list", help="list the evaluations and their settings")
    options = _parse(parser, words)
    if options.run is None and not options.is_list:
        parser.error("a run is required, unless `--list` is given.")

    def work() -> str:
        folder = Path() if options.is_list else find_folder(options.run)
        quiet_libraries()
        from pvg_hf.experimental.judging.round_evaluations import list_evaluations, show_results
        from pvg_hf.experimental.judging.run_evaluations import evaluate_run

        if options.is_list:
            return list_evaluations()
        results = evaluate_run(
            folder,
            round_index=options.round_index,
            only=options.only,
            overrides=options.overrides,
            again=options.again,
            num_workers=options.workers,
            executor=_executor_of(options),
        )
        figures = [
            {"evaluation": one.name, "round": one.round_index, "settings": one.settings, "figures": one.figures}
            for one in results
        ]
        return as_asked(options, show_results(results), figures)

    return run_command(work)


def attack(words: Sequence[str]) -> int:
    """
    Train fresh attackers against a frozen verifier, e.g. one that was pulled from the Hub
    (docs/how-to/attack-a-verifier.md).

        pvg attack attack
        pvg attack attack attack.verifier=ana/quickstart-verifier attack.revision=round-001

    The section `attack` of the recipe names the verifier; task, split and prover are the attackers'. The same command
    resumes the attacks. To attack the rounds of a run: pvg evaluate RUN --only attacks.
    """
    parser = _worker_parser("attack", attack)
    _add_recipe(parser, "a recipe with a section `attack`")
    options = _parse(parser, words)

    def work() -> str:
        recipe = load_recipe(find_recipe(options.recipe), options.overrides)
        admit_recipe(recipe)
        if recipe.attack is not None and recipe.attack.verifier is not None:
            attack = replace(recipe.attack, verifier=find_verifier(recipe.attack.verifier))
            recipe = replace(recipe, attack=attack, origin=None)  # admitted under the name that the recipe has
        quiet_libraries()
        from pvg_hf.experimental.attacks.verifier_attack import FIGURES_FILE, SUMMARY, attack_verifier

        folder = attack_verifier(recipe, num_workers=options.workers, executor=_executor_of(options))
        summary = (folder / SUMMARY).read_text(encoding="utf-8")
        return as_asked(options, f"{summary}\n{folder}", read_json(folder / FIGURES_FILE))

    return run_command(work)


def sweep(words: Sequence[str]) -> int:
    """
    Play a recipe over noise levels, seeds and corrections, and measure how much the verifier loses by the noise.

        pvg sweep noise/sweep-small
        pvg sweep noise/sweep --plan
        pvg sweep noise/sweep --workers 4 "sweep.levels=[0, 0.2]"
        pvg sweep messages/erasure

    A message game is played over noise levels and seeds, to measure how far it moves from the clean equilibrium. The
    same command resumes a stopped sweep. The folder OUTPUT_DIR/NAME holds summary.md, tables and plots.
    """
    parser = _worker_parser("sweep", sweep)
    _add_recipe(parser, "a recipe with a section `sweep`, or one of a message game")
    parser.add_argument("--plan", action="store_true", help="check the recipe, print how long it will take, and stop")
    options = _parse(parser, words)
    if options.plan and options.json:
        parser.error("--plan has no JSON")

    def work() -> str:
        path = find_recipe(options.recipe)
        return _sweep_messages(path, options) if "world" in read_yaml(path) else _sweep_noise(path, options)

    return run_command(work)


def _sweep_noise(path: Path, options: Namespace) -> str:
    recipe = load_recipe(path, options.overrides)
    quiet_libraries()
    from pvg_hf.experimental.sweep import describe_sweep, run_sweep
    from pvg_hf.experimental.sweep.result_tables import RESULTS_FILE

    if options.plan:
        return describe_sweep(recipe, num_workers=options.workers)
    folder = run_sweep(recipe, num_workers=options.workers, executor=_executor_of(options))
    results = read_json(folder.root / RESULTS_FILE, dict[str, Any])
    return _show_sweep(options, folder, {key: values for key, values in results.items() if key != "recipe"})


def _sweep_messages(path: Path, options: Namespace) -> str:
    from pvg_hf.experimental.messages.recipe import load_message_recipe

    recipe = load_message_recipe(path, options.overrides)
    quiet_libraries()
    from pvg_hf.experimental.messages.equilibrium import describe_equilibrium, run_equilibrium
    from pvg_hf.experimental.messages.equilibrium_report import write_equilibrium

    if options.plan:
        return describe_equilibrium(recipe)
    folder, table = run_equilibrium(recipe, num_workers=options.workers or 1, executor=_executor_of(options))
    write_equilibrium(recipe, folder, table)
    return _show_sweep(options, folder, json.loads(table.to_json(orient="records")))


def _show_sweep(options: Namespace, folder: "JobFolder", figures: Any) -> str:
    return as_asked(options, f"{folder.summary.read_text(encoding='utf-8')}\n{folder.root}", figures)


def _worker_parser(name: str, command: Callable[[Sequence[str]], int]) -> ScriptParser:
    parser = ScriptParser(command.__doc__, f"pvg {name}")
    parser.add_argument(
        "--workers", type=int, metavar="N", help="processes (default: one per core, at most eight; one with a GPU)"
    )
    parser.add_argument(
        "--executor", metavar="MODULE:NAME", help="a function that returns an executor, e.g. a cluster's"
    )
    add_json(parser)
    return parser


def _add_recipe(parser: ScriptParser, what: str) -> None:
    parser.add_argument("recipe", help=f"{what}: a YAML file, or the name of a packaged one")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings that override the recipe")


def _parse(parser: ScriptParser, words: Sequence[str]) -> Namespace:
    options = parser.parse_intermixed_args(words)
    if options.workers is not None and options.workers < 1:
        parser.error(f"--workers is {options.workers}; it must be at least 1.")
    set_up_logging()
    return options


def _executor_of(options: Namespace) -> Executor | None:
    from pvg_hf.run.jobs import load_executor

    return load_executor(options.executor) if options.executor else None


def _read_round(text: str) -> int | str:
    return "all" if text == "all" else int(text)
