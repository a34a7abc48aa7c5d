"""`pvg bench` (experimental): a verifier against fixed sets of attacks."""

from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from pvg_hf.cli.results import add_json, as_asked
from pvg_hf.cli.sources import find_verifier, local_verifier
from pvg_hf.core.shipped import PACKAGE
from pvg_hf.experimental.bench import BASELINES, SETS
from pvg_hf.game.cli import run_command
from pvg_hf.run.console import ScriptParser, quiet_libraries, set_up_logging


def bench(words: Sequence[str]) -> int:
    """
    Test a verifier on a fixed set of attacks: how many mistakes does it accept if it accepts 95 % of the correct
    solutions?

        pvg bench quickstart
        pvg bench org/reward-model --set gsm8k
        pvg bench http://localhost:8000/classify --set gsm8k
        pvg bench bag-of-words

    Prints the share of mistakes accepted and the area under the ROC curve for each kind of attack, with 95 % intervals
    over problems. The last line has the mean over the kinds: lower is better, and a verifier that checks nothing has
    .95.
    """
    parser = ScriptParser(bench.__doc__, "pvg bench")
    parser.add_argument(
        "verifier",
        help="a verifier, a reward model or a language model (folder, or id on the Hub), a run (RUN or RUN:ROUND), a"
        f" packaged model, a URL that ends with /classify or /predict, or a baseline ({', '.join(BASELINES)})",
    )
    sets = "; ".join(f"{name}: {about}" for name, about in SETS.items())
    parser.add_argument(
        "--set", choices=list(SETS), default="arithmetic", dest="set_name", help=f"{sets} (default: %(default)s)"
    )
    parser.add_argument(
        "--template", help="input of a reward model or a URL, as a Jinja template over `problem` and `solution`"
    )
    parser.add_argument(
        "--ask",
        action="store_true",
        help="ask a language model whether every step is correct (default: the likelihood of the solution)",
    )
    parser.add_argument(
        "--num-problems",
        type=int,
        metavar="N",
        help="use the first N problems only, for a slow verifier (default: all)",
    )
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="(default: %(default)s)")
    parser.add_argument("--card", action="store_true", help="print the figures as the metadata of a model card")
    add_json(parser)
    options = parser.parse_args(words)
    if options.num_problems is not None and options.num_problems < 2:
        parser.error("`--num-problems` must be at least 2, as intervals are over problems.")
    set_up_logging()

    def work() -> str:
        found = find_benched(options.verifier)
        quiet_libraries()
        from pvg_hf.experimental.bench.attack_sets import FIT, TEST, load_set
        from pvg_hf.experimental.bench.bench_card import write_card
        from pvg_hf.experimental.bench.bench_figures import describe, measure

        attacks = load_set(options.set_name)
        scorer: Callable[[list[str], list[str]], list[float]]
        if found in BASELINES:
            from pvg_hf.experimental.bench.baselines import Baseline

            scorer, scored_by = Baseline(found, attacks.part(FIT)), "a baseline"
        elif is_url(found):
            from pvg_hf.experimental.bench.endpoint import TEMPLATE, Endpoint

            scorer, scored_by = Endpoint(found, options.template or TEMPLATE), "a server"
        else:
            from pvg_hf.experimental.bench.opening import open_folder

            device = None if options.device == "auto" else options.device
            scorer, scored_by = open_folder(
                local_verifier(found), device=device, template=options.template, asks=options.ask
            )
        rows = attacks.part(TEST)
        rows = rows[rows["problem_id"].isin(rows["problem_id"].unique()[: options.num_problems])]
        figures = measure(rows.assign(score=scorer(rows["problem"].tolist(), rows["solution"].tolist())))
        if options.card:
            return write_card(options.verifier, attacks, figures, num_problems=options.num_problems)
        about = {
            "verifier": options.verifier,
            "scored_by": scored_by,
            "set": attacks.name,
            "digest": attacks.digest,
            "num_problems": rows["problem_id"].nunique(),
            "num_correct": int(rows["correct"].sum()),
        }
        heading = (
            f"{options.verifier} (scores: {scored_by}) on {attacks.name} {attacks.digest}: "
            f"{about['num_problems']} problems, {about['num_correct']} correct solutions"
        )
        return as_asked(options, f"{heading}\n{describe(figures)}", {**about, **figures.to_dict()})

    return run_command(work)


def find_benched(source: str) -> str:
    """
    Find what is measured: a baseline, a URL, or a folder or id on the Hub as [`~pvg_hf.cli.sources.find_verifier`]
    returns it.

    Raises `ValueError` if there is none.
    """
    if source in BASELINES:
        return source
    if is_url(source):
        if not urlsplit(source).path.endswith(("/classify", "/predict")):
            raise ValueError(
                f"`{source}` must end with /classify (vLLM) or /predict (text-embeddings-inference), as in "
                "`pvg bench http://localhost:8000/classify`."
            )
        return source
    packaged = PACKAGE / "assets" / source
    if Path(source).name == source and (packaged / "verifier_input.json").is_file():
        return str(packaged)
    if (Path(source) / "config.json").is_file():
        return source
    try:
        return find_verifier(source)
    except ValueError as err:
        raise ValueError(
            f"{err} `pvg bench` also takes a reward model, a URL, and the baselines {' and '.join(BASELINES)}."
        ) from err


def is_url(source: str) -> bool:
    return source.startswith(("http://", "https://"))
