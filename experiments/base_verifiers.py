"""
Compares models that a game's verifier may start from.

Each is played with the same recipe and seeds, and judged by what its verifiers know of the base prover's solutions before
and after training, and by how many of a trained prover's mistakes they accept.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from pvg_hf.check.mistakes import check_recipe, list_mistakes
from pvg_hf.check.player_sizes import measure_size, read_model_config, read_pretraining_flops
from pvg_hf.config import Recipe, RecipeError
from pvg_hf.config.trust import admit_code
from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.files import write_text
from pvg_hf.core.markdown import markdown_table
from pvg_hf.core.spreadsheets import to_csv
from pvg_hf.data.problems import GameProblems
from pvg_hf.evaluation.role_figures import scored_rows
from pvg_hf.evaluation.verifier_quality import roc_auc
from pvg_hf.experimental.sweep.cells import SweepFolder, sweep_folder
from pvg_hf.experimental.sweep.runner import CellsFailedError
from pvg_hf.experimental.sweep.seeds import mean_over_seeds, show_figure
from pvg_hf.experimental.sweep.workers import finish_cells, log_ends
from pvg_hf.game.phases.evaluate import read_test_rows
from pvg_hf.game.play import play
from pvg_hf.models.score_head import has_trained_head
from pvg_hf.models.sources import load_tokenizer, resolve_model
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.models.verifier_model import load_initial_verifier
from pvg_hf.report.pool_tables import pool_cells
from pvg_hf.run.folder import RunFolder
from pvg_hf.run.lock import locked
from pvg_hf.run.read import load_run
from pvg_hf.run.schedule import unfinished
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


@dataclass(frozen=True)
class BaseGame:
    """
    A game of the comparison.

    Args:
        seed (`int`):
            Seed of the game.
        model (`str`):
            Model that the verifier starts from: `verifier.model` of the recipe.
    """

    seed: int
    model: str

    @property
    def reference(self) -> "BaseGame":
        """The game itself: it can be played before any other."""
        return self

    @property
    def label(self) -> str:
        """Last part of the model's name."""
        return Path(self.model).name

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.label}"


def play_bases(recipe: Recipe, models: Sequence[str], seeds: Sequence[int]) -> SweepFolder:
    """
    Play or resume a recipe with a verifier from each model, for each seed. Finished games are not played again.

    A model that is a classifier with one logit keeps its head; any other gets a new one.

    Args:
        recipe ([`~pvg_hf.config.Recipe`]):
            The recipe of all games; its verifier has a score head.
        models (`Sequence[str]`), seeds (`Sequence[int]`):
            Models, by different names, and seeds.

    Returns:
        [`~pvg_hf.experimental.sweep.cells.SweepFolder`]: the folder `OUTPUT_DIR/NAME-bases`, with `summary.md` and `games.csv`.

    Raises:
        ValueError: if a game's recipe has mistakes, or if another process plays the comparison.
        CellsFailedError: if games could not be played; the results of the others are written.
    """
    games = [BaseGame(seed, model) for seed in seeds for model in models]
    _check(recipe, games)
    folder = sweep_folder(replace(recipe, name=f"{recipe.name}-bases"))
    with locked(folder.root, is_main=True, user="The comparison in {root} is being played"):
        todo = [game for game in games if unfinished(base_game_recipe(recipe, game))]
        logger.info("%d games to play, %d finished", len(todo), len(games) - len(todo))
        ended = finish_cells(todo, {*games} - {*todo}, partial(_play_game, recipe), num_workers=1)
        outcomes = dict(log_ends(ended, len(todo), partial(_headline, recipe)))
        failed = {game: error for game, error in outcomes.items() if error is not None}
        table = base_games_table(recipe, [game for game in games if game not in failed])
        write_text(folder.root / "games.csv", to_csv(table))
        write_text(folder.summary, f"# {recipe.name}: models to start a verifier from\n\n{bases_table(table)}\n")
    if failed:
        raise CellsFailedError(failed, len(games), folder)
    return folder


def _check(recipe: Recipe, games: Sequence[BaseGame]) -> None:
    labels = {game.label: game.model for game in games}
    if len(labels) < len({game.model for game in games}):
        raise ValueError(
            f"Two of the models {sorted({game.model for game in games})} have one name, and so would their runs: rename a folder."
        )
    for line in admit_code(recipe):
        logger.info("The recipe runs %s", line)
    problems = GameProblems.load(recipe)
    mistakes = [
        mistake
        for game in games
        if game.seed == games[0].seed
        for mistake in check_recipe(base_game_recipe(recipe, game), problems)
    ]
    if mistakes:
        raise RecipeError(list_mistakes(list(dict.fromkeys(mistakes))))


def base_game_recipe(recipe: Recipe, game: BaseGame) -> Recipe:
    """Return the recipe of a game."""
    verifier = replace(recipe.verifier, model=game.model, head="new")
    stored = read_model_config(verifier, "verifier")
    if stored is not None and has_trained_head(stored):
        verifier = replace(verifier, head="keep")
    return replace(recipe, name=f"{recipe.name}-{game.label}-seed-{game.seed}", seed=game.seed, verifier=verifier)


def _play_game(recipe: Recipe, game: BaseGame) -> None:
    played = base_game_recipe(recipe, game)
    logger.info("Playing %s into %s", game, RunFolder.of(played).root)
    play(played)


def _headline(recipe: Recipe, game: BaseGame) -> str:
    figures = _figures(RunFolder.of(base_game_recipe(recipe, game)))
    return f"AUC {figures['auc_first']:.3f}, {figures['accepted_last']:.3f} of the first mistakes accepted at the end"


def base_games_table(recipe: Recipe, games: Sequence[BaseGame]) -> pd.DataFrame:
    """
    Return a row for each finished game.

    Returns:
        `pd.DataFrame`: `seed`, `model`, `num_parameters`, `pretraining_share` (of the prover's operations), and the
        figures of `COLUMNS`: the area under the ROC curve on the base prover's test solutions of the model itself, of the
        first round's verifier and of the last one; and the share of the first round's sneaky mistakes that these two
        accept when 95 % of its helpful correct solutions are accepted. What a game does not have is NaN.
    """
    rows = []
    for game in games:
        played = base_game_recipe(recipe, game)
        folder = RunFolder.of(played)
        config = read_model_config(played.verifier, "verifier")
        size = measure_size(config, has_lm_head=False, dtype=torch.float32)
        rows.append(
            {
                "seed": game.seed,
                "model": game.label,
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
