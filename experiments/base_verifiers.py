"""
Play a recipe with verifiers that start from different models, and compare them.

    python -m experiments.base_verifiers recipes/quickstart.yaml --seeds 0 1 2
    python -m experiments.base_verifiers recipes/quickstart.yaml num_rounds=3 --models arithmetic arithmetic-judge

They are judged by what they know of the base prover's solutions before and after training, and by how many of a
trained prover's mistakes they accept. The same command resumes a stopped comparison: finished games, in
OUTPUT_DIR/NAME-MODEL-seed-K, are not played again. The folder OUTPUT_DIR/NAME-bases holds summary.md and games.csv.
"""

import logging
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from experiments.command import recipe_parser, run_experiment
from pvg_hf.check.mistakes import check_recipe
from pvg_hf.check.player_sizes import measure_size, read_model_config, read_pretraining_flops
from pvg_hf.config import Recipe, load_recipe
from pvg_hf.config.load import refuse
from pvg_hf.config.trust import admit_recipe
from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.files import write_text
from pvg_hf.core.markdown import markdown_table
from pvg_hf.core.spreadsheets import to_csv
from pvg_hf.data.problems import GameProblems
from pvg_hf.evaluation.role_figures import scored_rows
from pvg_hf.evaluation.verifier_quality import roc_auc
from pvg_hf.experimental.sweep.seeds import mean_over_seeds, show_figure
from pvg_hf.game.phases.evaluate import read_test_rows
from pvg_hf.game.play import play
from pvg_hf.models.score_head import is_sequence_classifier
from pvg_hf.models.sources import load_tokenizer, resolve_model
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.models.verifier_model import load_initial_verifier
from pvg_hf.report.tables import pool_cells
from pvg_hf.run.jobs import Job, JobFolder, JobsFailedError, run_jobs
from pvg_hf.run.layout import RunFolder, unfinished
from pvg_hf.run.lock import locked
from pvg_hf.run.read import load_run
from pvg_hf.scoring import VerifierScorer

logger = logging.getLogger(__name__)

# Headings and names of the figures of a game.
COLUMNS = {
    "auc_untrained": "AUC, untrained",
    "auc_first": "AUC, verifier 0",
    "auc_last": "AUC, last verifier",
    "accepted_first": "accepted by verifier 0",
    "accepted_last": "accepted by the last verifier",
}


MODELS = ["arithmetic", "arithmetic-small", "arithmetic-judge", "arithmetic-judge-small"]

BaseGame = tuple[int, str]  # seed of a game, and the model that its verifier starts from


def main() -> int:
    parser = recipe_parser(__doc__)
    parser.add_argument(
        "--models", nargs="+", default=MODELS, help=f"packaged models, Hub ids or folders (default: {MODELS})"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    arguments = parser.parse_intermixed_args()

    def work() -> str:
        recipe = load_recipe(arguments.recipe, arguments.overrides)
        folder = play_bases(recipe, arguments.models, arguments.seeds)
        return f"{folder.summary.read_text(encoding='utf-8')}\nEverything is in {folder.root}"

    return run_experiment(work)


def play_bases(recipe: Recipe, models: Sequence[str], seeds: Sequence[int]) -> JobFolder:
    """
    Play or resume a recipe with a verifier from each model, for each seed. Finished games are not played again.

    A model that is a classifier with one logit keeps its head; any other gets a new one.

    Args:
        recipe: The recipe of all games; its verifier has a score head.
        models, seeds: Models, by different names, and seeds.
    Raises `ValueError` if a game's recipe has mistakes, or if another process plays the comparison.
    Raises `JobsFailedError` if games could not be played; the results of the others are written.
    """
    games = [(seed, model) for seed in seeds for model in models]
    _check(recipe, games)
    folder = JobFolder(Path(recipe.output_dir) / f"{recipe.name}-bases")
    names = {game: f"seed {game[0]}, {label(game[1])}" for game in games}
    jobs = [Job(names[game], partial(_play_game, recipe, game), partial(_is_finished, recipe, game)) for game in games]
    with locked(folder.root, is_main=True, user="The comparison in {root} is being played"):
        try:
            run_jobs(jobs)
        except JobsFailedError as err:
            _write(recipe, [game for game in games if names[game] not in err.failed], folder)
            raise
        _write(recipe, games, folder)
    return folder


def _write(recipe: Recipe, games: Sequence[BaseGame], folder: JobFolder) -> None:
    table = base_games_table(recipe, games)
    write_text(folder.root / "games.csv", to_csv(table))
    write_text(folder.summary, f"# {recipe.name}: models to start a verifier from\n\n{bases_table(table)}\n")


def label(model: str) -> str:
    """Last part of a model's name."""
    return Path(model).name


def _check(recipe: Recipe, games: Sequence[BaseGame]) -> None:
    models = sorted({model for _, model in games})
    if len({*map(label, models)}) < len(models):
        raise ValueError(f"Two of the models {models} have one name, and so would their runs: rename a folder.")
    for setting in admit_recipe(recipe):
        logger.info("The recipe %s %s", setting.effect.verb, setting)
    problems = GameProblems.load(recipe)
    mistakes = [
        mistake
        for game in games
        if game[0] == games[0][0]
        for mistake in check_recipe(base_game_recipe(recipe, game), problems)
    ]
    refuse(dict.fromkeys(mistakes))


def base_game_recipe(recipe: Recipe, game: BaseGame) -> Recipe:
    """Return the recipe of a game."""
    seed, model = game
    verifier = replace(recipe.verifier, model=model, head="new")
    stored = read_model_config(verifier, "verifier")
    if stored is not None and is_sequence_classifier(stored):
        verifier = replace(verifier, head="keep")
    return replace(recipe, name=f"{recipe.name}-{label(model)}-seed-{seed}", seed=seed, verifier=verifier)


def _is_finished(recipe: Recipe, game: BaseGame) -> bool:
    return not unfinished(base_game_recipe(recipe, game))


def _play_game(recipe: Recipe, game: BaseGame) -> str:
    figures = _figures(play(base_game_recipe(recipe, game)))
    return f"AUC {figures['auc_first']:.3f}, {figures['accepted_last']:.3f} of the first mistakes accepted at the end"


def base_games_table(recipe: Recipe, games: Sequence[BaseGame]) -> pd.DataFrame:
    """
    Return a row for each finished game.

    Returns: `seed`, `model`, `num_parameters`, `pretraining_share` (of the prover's operations), and the figures of
        `COLUMNS`: the area under the ROC curve on the base prover's test solutions of the model itself, of the first
        round's verifier and of the last one; and the share of the first round's sneaky mistakes that these two accept
        when 95 % of its helpful correct solutions are accepted. What a game does not have is NaN.
    """
    rows = []
    for game in games:
        played = base_game_recipe(recipe, game)
        folder = RunFolder.of(played)
        config = read_model_config(played.verifier, "verifier")
        size = measure_size(config, has_lm_head=False, dtype=torch.float32)
        rows.append(
            {
                "seed": game[0],
                "model": label(game[1]),
                "num_parameters": size.num_parameters,
                "pretraining_share": _pretraining_share(played),
                "auc_untrained": _untrained_auc(played, folder),
                **_figures(folder),
            }
        )
    return pd.DataFrame(rows, columns=["seed", "model", "num_parameters", "pretraining_share", *COLUMNS])


def bases_table(table: pd.DataFrame) -> str:
    """Format a Markdown table with a row for each model; figures are means over seeds with Student's interval."""
    rows = [["model", "parameters", "share of the prover's pretraining", "seeds", *COLUMNS.values()]]
    for model, of_model in table.groupby("model", sort=False):
        share = of_model["pretraining_share"].iloc[0]
        figures = [show_figure(mean_over_seeds(of_model[name]), with_n=False) for name in COLUMNS]
        known = "not known" if np.isnan(share) else f"{share:.1e}"
        rows.append([model, f"{of_model['num_parameters'].iloc[0]:,}", known, str(len(of_model)), *figures])
    return markdown_table(rows)


def _figures(folder: RunFolder) -> dict[str, float]:
    run = load_run(folder.root, solution_columns=["problem_id"])
    auc, accepted = (pool_cells(run, measure) for measure in ("auc", "accepted"))
    last = run.evaluated[-1].round_index
    cells = {
        "auc_first": auc.get((0, BASE_ROUND)),
        "auc_last": auc.get((last, BASE_ROUND)),
        "accepted_first": accepted.get((0, 0)),
        "accepted_last": accepted.get((last, 0)),
    }
    return {name: np.nan if figure is None or figure.value is None else figure.value for name, figure in cells.items()}


def _untrained_auc(recipe: Recipe, folder: RunFolder) -> float:
    """Area under the ROC curve of a verifier that no round has trained; NaN for one whose head is drawn."""
    if recipe.verifier.traits.has_score_head and recipe.verifier.head == "new":
        return np.nan
    source, verifier_input = resolve_model(recipe.verifier.model, "verifier"), VerifierInput.load(folder.verifier(0))
    model = load_initial_verifier(source, likelihood_scale=verifier_input.likelihood_scale)
    scorer = VerifierScorer(model, load_tokenizer(source), verifier_input)
    rows = read_test_rows(folder, BASE_ROUND)
    rows["score"] = scorer(rows["problem"].tolist(), rows["solution"].tolist())
    value = roc_auc(scored_rows(rows)).value
    return np.nan if value is None else value


def _pretraining_share(recipe: Recipe) -> float:
    prover, verifier = (read_pretraining_flops(config, name) for name, config in recipe.players.items())
    return verifier / prover if prover and verifier else np.nan


if __name__ == "__main__":
    sys.exit(main())
