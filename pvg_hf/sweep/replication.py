"""Plays one recipe with several seeds, and summarises the games as means over seeds."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from pvg_hf.config import Recipe, load_recipe
from pvg_hf.core.files import write_json
from pvg_hf.core.markdown import markdown_table
from pvg_hf.evaluation.report.pool_tables import pool_cells
from pvg_hf.evaluation.seeds import mean_over_seeds, seeds_pools_table, seeds_table, show_figure
from pvg_hf.game.play import play
from pvg_hf.run.folder import RunFolder
from pvg_hf.run.read import RunData, load_run
from pvg_hf.sweep.cells import sweep_folder
from pvg_hf.sweep.runner import CellsFailedError
from pvg_hf.sweep.workers import finish_cells, log_ends

logger = logging.getLogger(__name__)

HEADLINES = (
    "accuracy/helpful",
    "accuracy/sneaky",
    "valid_sneaky",
    "completeness",
    "soundness",
    "test_auc",
    "verifier_pair_accuracy",
    "parity_step",
    "implicit_share/helpful",
    "step_validity/helpful",
)
"""Figures of a round whose means over seeds are tabulated; those of later evaluations are added as far as they exist."""

JUDGED_HEADLINES = {
    "role_separability": ("ngrams/all", "transformer/all"),
    "style": ("explained/all", "auc/style", "auc/rest"),
    "legibility": ("judge_auc/helpful", "judge_auc/game", "change/implicit_share/helpful_correct"),
}

ACCEPTED_IN_ALL_POOLS = "sneaky mistakes accepted, mean over all pools"


@dataclass(frozen=True)
class Replicate:
    """
    A game of the replication.

    Args:
        seed (`int`):
            Its seed.
    """

    seed: int

    @property
    def reference(self) -> "Replicate":
        """The game that must be finished before: none but itself."""
        return self

    def __str__(self) -> str:
        return f"seed {self.seed}"


def replicate(recipe: Recipe, seeds: Sequence[int], *, num_workers: int = 1) -> None:
    """
    Play or resume a recipe once per seed.

    Args:
        recipe ([`~pvg_hf.config.Recipe`]):
            The recipe; its seed is replaced.
        seeds (`Sequence[int]`):
            The seeds.
        num_workers (`int`, defaults to 1):
            Number of games played at a time, each in a process.

    Raises:
        CellsFailedError: if games could not be played; the others are finished.
    """
    games = [Replicate(seed) for seed in seeds]
    ended = finish_cells(games, set(), partial(_play_replicate, recipe), num_workers=num_workers)
    outcomes = dict(log_ends(ended, len(games), lambda game: "finished"))
    failed = {game: error for game, error in outcomes.items() if error is not None}
    if failed:
        raise CellsFailedError(failed, len(games), sweep_folder(recipe))


def replicate_recipe(recipe: Recipe, seed: int) -> Recipe:
    """Return the recipe of one seed, whose run is `NAME-seed-K`."""
    return load_recipe({**recipe.to_dict(), "name": f"{recipe.name}-seed-{seed}", "seed": seed})


def _play_replicate(recipe: Recipe, game: Replicate) -> None:
    play(replicate_recipe(recipe, game.seed))


def tabulate_replication(recipe: Recipe, seeds: Sequence[int]) -> str:
    """
    Tabulate the games that have begun, and write `OUTPUT_DIR/NAME-replication.json`.

    Args:
        recipe ([`~pvg_hf.config.Recipe`]), seeds (`Sequence[int]`):
            As in [`replicate`].

    Returns:
        `str`: Markdown tables: means over seeds by round, figures of each seed, and each seed's verifiers x pools.

    Raises:
        ValueError: if no game has an evaluated round.
    """
    roots = [RunFolder.of(replicate_recipe(recipe, seed)).root for seed in seeds]
    runs = [load_run(root, solution_columns=["problem_id"]) for root in roots if RunFolder(root).recipe.exists()]
    if not any(run.evaluated for run in runs):
        raise ValueError(f"No seed of `{recipe.name}` has an evaluated round in {recipe.output_dir} yet.")
    write_json(Path(recipe.output_dir) / f"{recipe.name}-replication.json", [_raw_figures(run) for run in runs])
    begun = [root for root in roots if RunFolder(root).recipe.exists()]
    parts = [
        f"Means over {len(runs)} seed(s) with 95 % intervals by Student's t:",
        means_table(runs),
        "Each seed:",
        seeds_table(begun),
        "Share of sneaky mistakes accepted at 95 % completeness, by verifier and prover:",
        seeds_pools_table(begun),
    ]
    return "\n\n".join(parts)


def means_table(runs: Sequence[RunData]) -> str:
    """
    Return a Markdown table of means over seeds: a row per figure, a column per round.

    Seeds that have not evaluated a round, or lack a figure in it, are left out of its mean; `n` is the number of seeds.

    Args:
        runs (`Sequence[RunData]`):
            Runs of one recipe.
    """
    values = [_headline_values(run) for run in runs]
    rounds = sorted({index for found in values for _, index in found})
    names = dict.fromkeys(name for found in values for name, _ in found)
    rows = [["", *(f"round {index}" for index in rounds)]]
    for name in names:
        means = [mean_over_seeds([found.get((name, index), np.nan) for found in values]) for index in rounds]
        rows.append([name, *map(show_figure, means)])
    return markdown_table(rows)


def _headline_values(run: RunData) -> dict[tuple[str, int], float]:
    """Values of the tabulated figures, by figure and round."""
    found = {
        (name, data.round_index): data.figure(name).value
        for name in HEADLINES
        for data in run.evaluated
        if data.figure(name).value is not None
    }
    cells = pool_cells(run, "accepted")
    # Only verifiers that judged every pool are comparable.
    pools = {pool for _, pool in cells}
    for verifier in sorted({verifier for verifier, _ in cells}):
        shares = [cells[verifier, pool].value for pool in sorted(pools) if (verifier, pool) in cells]
        if len(shares) == len(pools) and None not in shares:
            found[ACCEPTED_IN_ALL_POOLS, verifier] = float(np.mean(shares))
    return found | dict(_judged_values(run))


def _judged_values(run: RunData) -> Iterator[tuple[tuple[str, int], float]]:
    for judgement in run.judgements:
        names: Sequence[str] = JUDGED_HEADLINES.get(judgement.name, ())
        if judgement.name == "best_of_n":
            sizes = [
                int(key) for key, figure in judgement.figures.items() if key.isdigit() and figure.value is not None
            ]
            names = [str(max(sizes))] if sizes else []
        for name in names:
            value = judgement.figure(name).value
            if value is not None:
                yield (f"{judgement.name}/{name}", judgement.round_index), value


def _raw_figures(run: RunData) -> dict:
    """Seed, commit, seconds and all figures of a run as `[value, low, high, n]`, for keeping beside a table."""
    rounds: dict[str, dict] = {}
    for data in run.evaluated:
        rounds[str(data.round_index)] = {name: _compact(figure) for name, figure in data.figures.items()}
    for judgement in run.judgements:
        figures = rounds.setdefault(str(judgement.round_index), {})
        figures |= {f"judging/{judgement.name}/{key}": _compact(figure) for key, figure in judgement.figures.items()}
    seconds = {f"{phase} {index}": round(value, 1) for (index, phase), value in run.phase_seconds().items()}
    return {
        "seed": run.recipe.seed,
        "commit": run.environment.get("git_revision"),
        "seconds": seconds,
        "rounds": rounds,
    }


def _compact(figure) -> list[float | None]:
    return [value if value is None else round(value, 5) for value in (figure.value, figure.low, figure.high, figure.n)]
