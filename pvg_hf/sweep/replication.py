"""Plays one recipe with several seeds, and summarises the games as means over seeds."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from pvg_hf.config import Recipe, load_recipe
from pvg_hf.core.figure import Figure
from pvg_hf.core.files import write_json
from pvg_hf.core.markdown import markdown_table
from pvg_hf.core.roles import GAME_ROLES
from pvg_hf.evaluation.best_of_n import largest_common_n
from pvg_hf.evaluation.report.pool_tables import pool_cells
from pvg_hf.evaluation.role_recognition import BY_ANSWER, BY_FLAWS
from pvg_hf.evaluation.seeds import mean_over_seeds, seeds_attacks_table, seeds_pools_table, seeds_table, show_figure
from pvg_hf.game.play import play
from pvg_hf.run.folder import RunFolder
from pvg_hf.run.read import RunData, load_run
from pvg_hf.run.shared_phases import begin_with
from pvg_hf.sweep.cells import SweepFolder
from pvg_hf.sweep.level_plots import save_plot
from pvg_hf.sweep.replication_plots import plot_replication
from pvg_hf.sweep.runner import CellsFailedError
from pvg_hf.sweep.workers import finish_cells, log_ends

HEADLINES = (
    "accuracy/helpful",
    "accuracy_change/helpful",
    "accuracy/sneaky",
    "valid_sneaky",
    "completeness",
    "soundness",
    "test_auc",
    "verifier_pair_accuracy",
    *(f"accepted_role/{role}/{kind}" for role in GAME_ROLES for kind in (*BY_FLAWS, *BY_ANSWER)),
    "late_change/helpful",
    "implicit_share/helpful",
    "step_validity/helpful",
    "hidden_mistake/sneaky",
    "certificate_rate/sneaky",
    "similarity/sneaky_wrong",
    "similarity/helpful_correct",
)
"""Figures of a round whose means over seeds are tabulated; those of later evaluations are added as far as they exist."""

JUDGED_HEADLINES = {
    "role_separability": r"(ngrams|transformer)/(all|incorrect)",
    "style": r"explained_within/all|explained/correct",
    "legibility": r"judge_auc/(helpful|game)|change/(implicit_share|step_validity|num_tokens)/helpful_correct"
    r"|change/judge_auc/(helpful|game)",
    "attacks": r".+/(found|mean_steps|convincing_steps|accepted)",
    "untrained_attacks": r"reference|other_problem|answer_alone/(correct|incorrect)|truncated/1|near_miss/.+|search/16",
    "regression": r"accepted/all",
    "legibility_tax": r"(accuracy|step_validity|implicit_share|judge_auc/\w+)/(game|correctness_only)_less_(correctness_only|base)",
}
"""Figures of later evaluations that are tabulated, as patterns of their names, by evaluation."""

BEST_OF_N = "best_of_n"  # evaluation of which one n is tabulated

LEAST_ELIGIBLE = 10
"""Eligible problems that every seed and round must have at the tabulated n of best-of-n."""

ACCEPTED_IN_ALL_POOLS = "sneaky mistakes accepted, mean over all pools"

PARITY_REACHED = "parity reached"

PARITY_STEP = "step of parity, or of the end of the training without it"


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


def replicate(recipe: Recipe, seeds: Sequence[int], *, num_workers: int = 1, beginning: str | None = None) -> None:
    """
    Play or resume a recipe once per seed.

    Args:
        recipe ([`~pvg_hf.config.Recipe`]):
            The recipe; its seed is replaced.
        seeds (`Sequence[int]`):
            The seeds.
        num_workers (`int`, defaults to 1):
            Number of games played at a time, each in a process.
        beginning (`str`, *optional*):
            Name of another replicated recipe in the same `output_dir`, whose bootstrap and first verifiers are taken over
            where they are the same (see [`~pvg_hf.run.shared_phases.begin_with`]).

    Raises:
        CellsFailedError: if games could not be played; the others are finished.
    """
    work_on_seeds(recipe, seeds, partial(_play_replicate, recipe, beginning), num_workers=num_workers)


def work_on_seeds(
    recipe: Recipe, seeds: Sequence[int], work: Callable[[Replicate], None], *, num_workers: int
) -> None:
    """
    Do a piece of work for each seed of a recipe.

    Args:
        recipe ([`~pvg_hf.config.Recipe`]), seeds (`Sequence[int]`):
            As in [`replicate`].
        work (`Callable`):
            The work; it must be picklable, and continues what an earlier call has begun.
        num_workers (`int`):
            Number of processes. With 1, the work is done in this process.

    Raises:
        CellsFailedError: if the work fails for some seeds; it is finished for the others.
    """
    games = [Replicate(seed) for seed in dict.fromkeys(seeds)]
    ended = finish_cells(games, set(), work, num_workers=num_workers)
    outcomes = dict(log_ends(ended, len(games), lambda game: "finished"))
    failed = {game: error for game, error in outcomes.items() if error is not None}
    if failed:
        raise CellsFailedError(failed, len(games), SweepFolder(Path(recipe.output_dir)))


def replicate_recipe(recipe: Recipe, seed: int) -> Recipe:
    """Return the recipe of one seed, whose run is `NAME-seed-K`."""
    return load_recipe({**recipe.to_dict(), "name": f"{recipe.name}-seed-{seed}", "seed": seed})


def _play_replicate(recipe: Recipe, beginning: str | None, game: Replicate) -> None:
    played = replicate_recipe(recipe, game.seed)
    if beginning is not None:
        begin_with(played, RunFolder.of(replicate_recipe(replace(recipe, name=beginning), game.seed)))
    play(played)


def tabulate_replication(recipe: Recipe, seeds: Sequence[int], *, against: str | None = None) -> str:
    """
    Tabulate the games that have begun, and write `OUTPUT_DIR/NAME-replication.json` and the plots of the means over seeds.

    Args:
        recipe ([`~pvg_hf.config.Recipe`]), seeds (`Sequence[int]`):
            As in [`replicate`].
        against (`str`, *optional*):
            Name of another replicated recipe in the same `output_dir`, to compare with seed by seed.

    Returns:
        `str`: Markdown tables: means over seeds by round, the comparison, if any, figures of each seed, and each seed's
        verifiers x pools.

    Raises:
        ValueError: if no game has an evaluated round.
    """
    begun, runs = _begun_runs(recipe, seeds)
    write_json(Path(recipe.output_dir) / f"{recipe.name}-replication.json", [_raw_figures(run) for run in runs])
    for plot in plot_replication(recipe.name, runs):
        save_plot(plot, Path(recipe.output_dir))
    parts = [f"Means over {len(runs)} seed(s) with 95 % intervals by Student's t:", means_table(runs)]
    if against is not None:
        _, others = _begun_runs(replace(recipe, name=against), seeds)
        parts += [
            f"`{recipe.name}` and `{against}` after the last round that both have evaluated, and their difference, paired by seed:",
            contrast_table(runs, others),
        ]
    attacks = seeds_attacks_table(runs)
    if attacks is not None:
        parts += ["Fresh attackers of all seeds:", attacks]
    parts += [
        "Each seed:",
        seeds_table(begun),
        "Share of sneaky mistakes accepted at 95 % completeness, by verifier and prover:",
        seeds_pools_table(begun),
    ]
    return "\n\n".join(parts)


def _begun_runs(recipe: Recipe, seeds: Sequence[int]) -> tuple[list[Path], list[RunData]]:
    """Folders and contents of the games that have begun, in the order of the seeds."""
    roots = [RunFolder.of(replicate_recipe(recipe, seed)).root for seed in dict.fromkeys(seeds)]
    begun = [root for root in roots if RunFolder(root).recipe.exists()]
    runs = [load_run(root, solution_columns=["problem_id"]) for root in begun]
    if not any(run.evaluated for run in runs):
        raise ValueError(f"No seed of `{recipe.name}` has an evaluated round in {recipe.output_dir} yet.")
    return begun, runs


def means_table(runs: Sequence[RunData]) -> str:
    """
    Return a Markdown table of means over seeds: a row per figure, a column per round, and the change over all rounds.

    Seeds that have not evaluated a round, or lack a figure in it, are left out of its mean; `n` is the number of seeds.
    The change is that from the first to the last round of the table within each seed, which removes the spread that both
    rounds share.

    Args:
        runs (`Sequence[RunData]`):
            Runs of one recipe.
    """
    values = _values_of(runs)
    rounds = sorted({index for found in values for _, index in found})
    rows = [["", *(f"round {index}" for index in rounds)]]
    if len(rounds) > 1:
        rows[0].append(f"round {rounds[-1]} less round {rounds[0]}")
    for name in _names_in(values):
        columns = [[found.get((name, index), np.nan) for found in values] for index in rounds]
        if len(rounds) > 1:
            columns.append([last - first for first, last in zip(columns[0], columns[-1], strict=True)])
        rows.append([name, *(show_figure(mean_over_seeds(column)) for column in columns)])
    return markdown_table(rows)


def contrast_table(runs: Sequence[RunData], others: Sequence[RunData]) -> str:
    """
    Return a Markdown table that compares two recipes after the last round that all of their seeds have evaluated.

    Args:
        runs (`Sequence[RunData]`), others (`Sequence[RunData]`):
            Runs of either recipe. Only seeds that both have are compared.

    Raises:
        ValueError: if they have no seed in common with an evaluated round.
    """
    sides = [{run.recipe.seed: run for run in side if run.evaluated} for side in (runs, others)]
    seeds = [seed for seed in sides[0] if seed in sides[1]]
    if not seeds:
        raise ValueError("The two recipes have no seed in common with an evaluated round.")
    paired = [side[seed] for side in sides for seed in seeds]
    last = min(run.evaluated[-1].round_index for run in paired)
    # Verifiers are compared on the provers that both recipes have by then, and best-of-n at one n.
    pools = set.intersection(*({pool for _, pool in pool_cells(run, "accepted")} for run in paired))
    values = _values_of(paired, pools={pool for pool in pools if pool <= last})
    rows = [["", *(side[seeds[0]].recipe.name.removesuffix(f"-seed-{seeds[0]}") for side in sides), "difference"]]
    rows[0][0] = f"round {last}"
    for name in _names_in(values):
        of_run = [found.get((name, last), np.nan) for found in values]
        ours, theirs = np.array(of_run[: len(seeds)]), np.array(of_run[len(seeds) :])
        if not np.isnan(ours - theirs).all():
            rows.append([name, *(show_figure(mean_over_seeds(column)) for column in (ours, theirs, ours - theirs))])
    return markdown_table(rows)


Values = dict[tuple[str, int], float]  # by figure and round


def _names_in(values: Sequence[Values]) -> list[str]:
    return list(dict.fromkeys(name for found in values for name, _ in found))


def _values_of(runs: Sequence[RunData], *, pools: Collection[int] | None = None) -> list[Values]:
    """
    Values of the tabulated figures of each run, with best-of-n at the largest n that can be compared in all of them.

    `pools` are the provers over whose mistakes verifiers are averaged; by default all of each run.
    """
    drawn = [judgement.figures for run in runs for judgement in run.judgements if judgement.name == BEST_OF_N]
    size = largest_common_n(drawn, least_eligible=LEAST_ELIGIBLE)
    patterns = JUDGED_HEADLINES if size is None else {**JUDGED_HEADLINES, BEST_OF_N: str(size)}
    return [{**_round_values(run, pools), **dict(_judged_values(run, patterns))} for run in runs]


def _round_values(run: RunData, pools: Collection[int] | None) -> Values:
    found = {
        (name, data.round_index): data.figure(name).value
        for name in HEADLINES
        for data in run.evaluated
        if data.figure(name).value is not None
    }
    for data in run.evaluated:
        parity = data.figure("parity_step")
        if parity.n:  # steps of the sneaky role's training
            found[PARITY_REACHED, data.round_index] = float(parity.value is not None)
            found[PARITY_STEP, data.round_index] = float(parity.n if parity.value is None else parity.value)
    cells = pool_cells(run, "accepted")
    # Only verifiers that judged every pool are comparable.
    pools = {pool for _, pool in cells} if pools is None else pools
    for verifier in sorted({verifier for verifier, _ in cells}):
        shares = [cells[verifier, pool].value for pool in sorted(pools) if (verifier, pool) in cells]
        if len(shares) == len(pools) and None not in shares:
            found[ACCEPTED_IN_ALL_POOLS, verifier] = float(np.mean(shares))
    return found


def _judged_values(run: RunData, patterns: Mapping[str, str]) -> Iterator[tuple[tuple[str, int], float]]:
    for judgement in run.judgements:
        for name, figure in judgement.figures.items():
            if figure.value is not None and re.fullmatch(patterns.get(judgement.name, ""), name):
                yield (f"{judgement.name}/{name}", judgement.round_index), figure.value


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


def _compact(figure: Figure) -> list[float | None]:
    return [value if value is None else round(value, 5) for value in (figure.value, figure.low, figure.high, figure.n)]
