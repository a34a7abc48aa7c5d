"""
Play a recipe with checkers that err at one rate in different ways, and compare what the prover learns from them.

    python -m experiments.arms recipes/noise/same-rate.yaml
    python -m experiments.arms recipes/noise/same-rate.yaml prover.max_steps=50 --seeds 0
    python -m experiments.arms recipes/noise/same-rate.yaml --plan

Every arm accepts the same share of the base prover's wrong solutions; what differs is which ones. Each is compared
with a game of the same seed whose checker does not err. The same command resumes a stopped comparison: finished games,
in OUTPUT_DIR/NAME-ARM-seed-K, are not played again. The folder OUTPUT_DIR/NAME holds summary.md and games.csv.
"""

import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.command import recipe_parser, run_experiment
from pvg_hf.check.mistakes import check_recipe
from pvg_hf.check.plan import describe_plan
from pvg_hf.config import Recipe, RecipeError, load_recipe
from pvg_hf.config.load import refuse
from pvg_hf.config.noise_section import CheckerConfig, ErrorBucketConfig, ErrorsConfig, NoiseConfig
from pvg_hf.config.trust import admit_recipe
from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.files import write_text
from pvg_hf.core.markdown import markdown_table
from pvg_hf.core.roles import Role
from pvg_hf.core.spreadsheets import to_csv
from pvg_hf.data.pool import load_pool
from pvg_hf.data.problems import GameProblems
from pvg_hf.evaluation.intervals import rate_by_problem
from pvg_hf.evaluation.role_figures import is_valid_mistake
from pvg_hf.experimental.sweep.seeds import mean_over_seeds, show_figure
from pvg_hf.game.play import play
from pvg_hf.noise.error_buckets import ErrorBuckets
from pvg_hf.run.jobs import Job, JobFolder, JobsFailedError, run_jobs
from pvg_hf.run.layout import RunFolder, pool_file, unfinished
from pvg_hf.run.lock import locked
from pvg_hf.run.read import RunData, load_run
from pvg_hf.run.resume import check_same_recipe

logger = logging.getLogger(__name__)

CLEAN = "clean"

_ROUNDING = 1e-9  # of a mean of rates

ArmGame = tuple[int, str]  # seed of a game, and a key of `arms.checkers` or `clean`


def main() -> int:
    parser = recipe_parser(__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", help="seeds (default: those of the recipe)")
    parser.add_argument("--plan", action="store_true", help="check the recipe, print the plan of a game, and stop")
    arguments = parser.parse_intermixed_args()

    def work() -> str:
        seeds = [f"arms.seeds={arguments.seeds}"] if arguments.seeds else []
        recipe = load_recipe(arguments.recipe, [*arguments.overrides, *seeds])
        if arguments.plan:
            return describe_arms(recipe)
        folder = play_arms(recipe)
        return f"{folder.summary.read_text(encoding='utf-8')}\nEverything is in {folder.root}"

    return run_experiment(work)


def play_arms(recipe: Recipe) -> JobFolder:
    """
    Play or resume every arm of a recipe, which has a section `arms`, for every seed.

    Raises `ValueError` if the recipe has mistakes or differs from the one that a game was started with, or if another
        process plays the comparison.
    Raises `JobsFailedError` if games could not be played; the results of the others are written.
    """
    folder, games = JobFolder(Path(recipe.output_dir) / recipe.name), _checked_games(recipe)
    names = {(seed, arm): f"seed {seed}, {arm}" for seed, arm in games}
    jobs = [
        Job(
            names[game],
            partial(_play_game, recipe, game),
            partial(_is_finished, recipe, game),
            () if game[1] == CLEAN else (names[game[0], CLEAN],),
        )
        for game in games
    ]
    with locked(folder.root, is_main=True, user="The comparison in {root} is being played"):
        try:
            run_jobs(jobs)
        except JobsFailedError as err:
            write_arms(recipe, [game for game in games if names[game] not in err.failed])
            raise
        write_arms(recipe, games)
    return folder


def describe_arms(recipe: Recipe) -> str:
    """
    Check a comparison, and describe its games and the plan of a single game. Nothing is written.

    Raises `ValueError` if the recipe has mistakes, or differs from the one that a game was started with.
    """
    games = _checked_games(recipe)
    todo = [game for game in games if not _is_finished(recipe, game)]
    clean = game_recipe(recipe, next((game for game in todo if game[1] == CLEAN), games[0]))
    lines = [
        f"Checkers {', '.join((CLEAN, *recipe.arms.checkers))}",
        f"Seeds    {', '.join(map(str, recipe.arms.seeds))}",
        f"To play  {len(todo)} of {len(games)} games",
    ]
    return "\n".join([*lines, "", "A game with clean labels, which takes as long as any other:", describe_plan(clean)])


def _checked_games(recipe: Recipe) -> list[ArmGame]:
    """
    List the games of a comparison, each seed's clean one first, after checks of all their recipes.

    Raises `RecipeError` if there are mistakes; all of them are listed.
    Raises `UntrustedCodeError` if the recipe came with a pulled run and needs consent that the user has not given yet.
    Raises `ValueError` if a game was started with another recipe.
    """
    if recipe.arms is None or not recipe.arms.checkers:
        raise RecipeError(
            "The recipe has no `arms.checkers`, which names the checkers to compare; "
            "`arms: {checkers: {random: []}}` compares random errors with none."
        )
    for setting in admit_recipe(recipe):
        logger.info("The recipe %s %s", setting.effect.verb, setting)
    refuse(list(_mistakes(recipe)))
    games = [(seed, arm) for seed in recipe.arms.seeds for arm in (CLEAN, *recipe.arms.checkers)]
    for seed, arm in games:
        is_begun = arm_folder(recipe, (seed, arm)).recipe.exists()
        if is_begun and (arm == CLEAN or _is_finished(recipe, (seed, CLEAN))):  # then a checker's rates are known
            check_same_recipe(arm_folder(recipe, (seed, arm)), game_recipe(recipe, (seed, arm)))
    return games


def _mistakes(recipe: Recipe) -> Iterator[str]:
    """Mistakes in the section `noise`, in the clean game, and in the checkers, whose rates are not filled up yet."""
    if recipe.noise != NoiseConfig() or any("noise" in override for override in recipe.rounds.values()):
        yield "`noise` is set, but `arms.checkers` sets the noise of each game: leave `noise` out."
        return
    seed = recipe.arms.seeds[0]
    clean = _recipe_with(recipe, (seed, CLEAN), NoiseConfig())
    problems = GameProblems.load(clean)
    of_all = check_recipe(clean, problems)
    yield from of_all
    for arm, buckets in recipe.arms.checkers.items():
        noise = _noise(buckets, recipe.arms.rate)
        of_arm = check_recipe(_recipe_with(recipe, (seed, arm), noise), problems)
        yield from (f"In `arms.checkers.{arm}`: {mistake}" for mistake in of_arm if mistake not in of_all)


def _is_finished(recipe: Recipe, game: ArmGame) -> bool:
    return not unfinished(_recipe_with(recipe, game, NoiseConfig()))


def _play_game(recipe: Recipe, game: ArmGame) -> str:
    folder = play(game_recipe(recipe, game))
    return f"helpful accuracy {_accuracy(_load(folder)):.3f}"


def arm_folder(recipe: Recipe, game: ArmGame) -> RunFolder:
    """The run of a game."""
    return RunFolder.of(_recipe_with(recipe, game, NoiseConfig()))


def game_recipe(recipe: Recipe, game: ArmGame) -> Recipe:
    """
    Return the recipe of a game. That of an arm needs the base prover's solutions in the finished game of its
    reference.

    Raises `ValueError` if the arm cannot accept the common share of them.
    """
    seed, arm = game
    if arm == CLEAN:
        return _recipe_with(recipe, game, NoiseConfig())
    buckets, wrong = recipe.arms.checkers[arm], base_mistakes(arm_folder(recipe, (seed, CLEAN)))
    try:
        fill = find_fill(buckets, recipe.arms.rate, wrong, seed)
    except ValueError as err:
        raise ValueError(f"`arms.checkers.{arm}` cannot err at `arms.rate`: {err}") from err
    return _recipe_with(recipe, game, _noise(buckets, fill))


def _recipe_with(recipe: Recipe, game: ArmGame, noise: NoiseConfig) -> Recipe:
    seed, arm = game
    return replace(recipe, name=f"{recipe.name}-{arm}-seed-{seed}", seed=seed, noise=noise, arms=None)


def _noise(buckets: Sequence[ErrorBucketConfig], fill: float) -> NoiseConfig:
    return NoiseConfig(applies_to="prover", checker=CheckerConfig(noise_enabled=False, errors=_errors(buckets, fill)))


def _errors(buckets: Sequence[ErrorBucketConfig], fill: float) -> ErrorsConfig:
    strategy = "targeted" if buckets else "uniform"
    return ErrorsConfig(FPR=fill, strategy=strategy, targeted_buckets=list(buckets))


def base_mistakes(folder: RunFolder) -> pd.DataFrame:
    """
    The base prover's wrong solutions to the verifier's problems, which all games of a seed share.

    Raises `ValueError` if it made no mistake.
    """
    file = folder.pool(BASE_ROUND) / pool_file(Role.BASE)
    rows = load_pool(file, parts=("verifier",)).to_pandas()  # all columns: selectors may name those of the task
    wrong = rows[is_valid_mistake(rows)]
    if wrong.empty:
        raise ValueError(
            f"None of the {len(rows)} base prover's solutions in {file} is answered and wrong, so that no checker can"
            " accept a share of them: use harder problems, or more `bootstrap.solutions_per_problem`."
        )
    return wrong


def find_fill(buckets: Sequence[ErrorBucketConfig], rate: float, wrong: pd.DataFrame, seed: int) -> float:
    """
    Find the rate of random errors outside the buckets with which a checker accepts a share of wrong solutions.

    Raises `ValueError` if the buckets alone accept more, or so few remain outside that accepting all is not enough.
    """
    if not buckets:
        return rate
    # The share is linear in the fill, and these are its ends.
    least, most = (_expected_share(_errors(buckets, fill), wrong, seed) for fill in (0.0, 1.0))
    if not least - _ROUNDING <= rate <= most + _ROUNDING:
        change = "a rarer selector or a lower FPR" if rate < least else "a rarer selector or a higher FPR"
        raise ValueError(
            f"with its buckets it accepts {least:.3f} to {most:.3f} of the base prover's wrong solutions, depending on"
            f" the random errors outside, and the rate is {rate:g}. Use {change}, or another `arms.rate`."
        )
    fill = (rate - least) / (most - least) if most - least > _ROUNDING else 0.0
    return min(max(fill, 0.0), 1.0)


def _expected_share(errors: ErrorsConfig, wrong: pd.DataFrame, seed: int) -> float:
    checker = ErrorBuckets(errors, seed)
    return sum(checker.rates(row, row["solution"])[1] for row in wrong.to_dict("records")) / len(wrong)


def write_arms(recipe: Recipe, games: Sequence[ArmGame]) -> None:
    """Write `summary.md` and `games.csv` of finished games into `OUTPUT_DIR/NAME`."""
    folder, table = JobFolder(Path(recipe.output_dir) / recipe.name), games_table(recipe, games)
    write_text(folder.root / "games.csv", to_csv(table))
    write_text(folder.summary, f"# {recipe.name}\n\n{arms_table(recipe, table)}\n")


def games_table(recipe: Recipe, games: Iterable[ArmGame]) -> pd.DataFrame:
    """
    Return a row for each finished game.

    Returns: `seed`, `arm`, `static_rate` (share of the base prover's wrong solutions that the checker accepts),
        `accuracy` (of the helpful role in the last round), `change` (of the accuracy, against the clean game of the
        seed), `rise` (of false positives, mean over the prover phases) and `has_alert` (of such a rise). What a game
        does not have is NaN.
    """
    rows = []
    for seed, arm in games:
        folder = arm_folder(recipe, (seed, arm))
        run = _load(folder)
        row = {
            "seed": seed,
            "arm": arm,
            "static_rate": _static_rate(folder, run),
            "accuracy": _accuracy(run),
            "rise": _rise(run),
            "has_alert": any(alert["kind"] == "rise_of_false_positives" for alert in run.alerts),
        }
        rows.append(row)
    table = pd.DataFrame(rows, columns=["seed", "arm", "static_rate", "accuracy", "change", "rise", "has_alert"])
    clean = table[table["arm"] == CLEAN].set_index("seed")["accuracy"]
    return table.assign(change=(table["accuracy"] - table["seed"].map(clean)).mask(table["arm"] == CLEAN))


def arms_table(recipe: Recipe, table: pd.DataFrame) -> str:
    """Format a Markdown table with a row for each arm; figures are means over seeds with Student's interval."""
    rows = [["checker", "seeds", "static rate", "accuracy", "change to clean", "rise of false positives", "alerts"]]
    for arm in (CLEAN, *recipe.arms.checkers):
        of_arm = table[table["arm"] == arm]
        figures = [mean_over_seeds(of_arm[name]) for name in ("static_rate", "accuracy", "change", "rise")]
        shown = [show_figure(figure, with_n=False) for figure in figures]
        rows.append([arm, str(len(of_arm)), *shown, f"{of_arm['has_alert'].sum()} of {len(of_arm)}"])
    return markdown_table(rows)


def _accuracy(run: RunData) -> float:
    value = run.evaluated[-1].figure("accuracy/helpful").value
    return np.nan if value is None else value


def _rise(run: RunData) -> float:
    rises = [
        one.rise.value
        for phase in run.false_positives
        for one in phase.rises
        if (one.checker, one.role) == ("labels", Role.HELPFUL) and one.rise.value is not None
    ]
    return float(np.mean(rises)) if rises else np.nan


def _static_rate(folder: RunFolder, run: RunData) -> float:
    if run.recipe.noise.checker is None:
        return np.nan
    checker, wrong = ErrorBuckets(run.recipe.noise.checker.errors, run.recipe.seed), base_mistakes(folder)
    verdicts = [checker.judge(row, row["solution"], False, round_index=BASE_ROUND) for row in wrong.to_dict("records")]
    return rate_by_problem(verdicts, wrong["problem_id"]).value


def _load(folder: RunFolder) -> RunData:
    return load_run(folder.root, solution_columns=["problem_id"])


if __name__ == "__main__":
    sys.exit(main())
