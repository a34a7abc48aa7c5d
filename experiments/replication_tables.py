"""
Tables of a replicated recipe: means over seeds, two recipes compared seed by seed, and the raw figures behind them.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.replication_plots import plot_contrast, plot_replication, plot_training
from pvg_hf.config import Recipe, load_recipe
from pvg_hf.core.figure import EMPTY, Figure
from pvg_hf.core.files import write_json
from pvg_hf.core.markdown import markdown_table
from pvg_hf.core.roles import GAME_ROLES
from pvg_hf.evaluation.catalogue import heading_of
from pvg_hf.evaluation.role_figures import BY_ANSWER, BY_FLAWS
from pvg_hf.experimental.attacks.attack_curves import attack_judgements, read_attacks
from pvg_hf.experimental.attacks.exploit import (
    ATTACK_CURVES,
    ATTACK_OUTCOMES,
    exploit_figures,
    find_convincing,
    log_rank_p,
    read_exploits,
)
from pvg_hf.experimental.sweep.level_plots import save_plot
from pvg_hf.experimental.sweep.seeds import mean_over_seeds, show_figure
from pvg_hf.report.tables import pool_cells, pool_heading
from pvg_hf.run.layout import RunFolder
from pvg_hf.run.read import RunData, load_run

LEAST_ELIGIBLE = 10
"""Eligible problems that every round must have at an n of best-of-n that is compared."""

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
"""Figures of a round whose means over seeds are tabulated; those of later evaluations are added as far as they
exist."""

JUDGED_HEADLINES = {
    "role_separability": r"(ngrams|transformer)/(all|incorrect)",
    "style": r"(base/)?explained_within/(all|flaws)|explained/correct",
    "legibility": (
        r"judge_(auc|single|pair)/(helpful|game)|change/(implicit_share|step_validity|num_tokens)/helpful_correct"
        r"|change/judge_auc/(helpful|game)"
    ),
    "attacks": r".+/(found|accepted)",
    "untrained_attacks": (
        r"reference|other_problem|answer_alone/(correct|incorrect)|truncated/1|near_miss/.+|search/16"
    ),
    "regression": r"accepted/all",
    "legibility_tax": (
        r"(accuracy|step_validity|implicit_share|judge_auc/\w+)/(game|correctness_only)_less_(correctness_only|base)"
    ),
}
"""Figures of later evaluations that are tabulated, as patterns of their names, by evaluation."""

BEST_OF_N = "best_of_n"  # evaluation of which one n is tabulated

ACCEPTED_IN_ALL_POOLS = "sneaky mistakes accepted, mean over all pools"

PARITY_REACHED = "parity reached"

PARITY_STEP = "step of parity, or of the end of the training without it"


Values = dict[tuple[str, int], float]  # by figure and round


def names_in(values: Sequence[Values]) -> list[str]:
    """Return the names of the figures that any run has, each once."""
    return list(dict.fromkeys(name for found in values for name, _ in found))


def values_of(runs: Sequence[RunData], *, pools: Collection[int] | None = None) -> list[Values]:
    """
    Return the values of the tabulated figures of each run, with best-of-n at the largest n that can be compared in
    all.

    Args:
        pools: The provers, by round, over whose mistakes verifiers are averaged; by default all of each run.
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


def replicate_recipe(recipe: Recipe, seed: int) -> Recipe:
    """Return the recipe of one seed, whose run is `NAME-seed-K`."""
    return load_recipe({**recipe.to_dict(), "name": f"{recipe.name}-seed-{seed}", "seed": seed})


def tabulate_replication(recipe: Recipe, seeds: Sequence[int], *, against: str | None = None) -> str:
    """
    Tabulate the games that have begun, and write `OUTPUT_DIR/NAME-replication.json` and plots.

    Args:
        recipe, seeds: As in [`replicate`].
        against: Name of another replicated recipe in the same `output_dir`, to compare with seed by seed.
    Returns: Markdown tables: means over seeds by round, the comparison, if any, figures of each seed, and each seed's
        verifiers x pools.
    Raises `ValueError` if no game has an evaluated round.
    """
    runs = _begun_runs(recipe, seeds)
    write_json(Path(recipe.output_dir) / f"{recipe.name}-replication.json", [raw_figures(run) for run in runs])
    for plot in plot_replication(recipe.name, runs):
        save_plot(plot, Path(recipe.output_dir))
    parts = [f"Means over {len(runs)} seed(s) with 95 % intervals by Student's t:", means_table(runs)]
    if against is not None:
        others = _begun_runs(replace(recipe, name=against), seeds)
        contrast = contrast_recipes(runs, others)
        save_plot(plot_contrast(contrast), Path(recipe.output_dir))
        training = plot_training(f"{recipe.name}-against-{against}-training", {recipe.name: runs, against: others})
        if training is not None:
            save_plot(training, Path(recipe.output_dir))
        parts += [
            (
                f"`{recipe.name}` and `{against}` after the last round that both have evaluated, and their difference,"
                " paired by seed:"
            ),
            contrast_table(contrast),
        ]
    attacks = seeds_attacks_table(runs)
    if attacks is not None:
        parts += ["Fresh attackers of all seeds:", attacks]
    parts += [
        "Each seed:",
        seeds_table(runs),
        "Share of sneaky mistakes accepted at 95 % completeness, by verifier and prover:",
        seeds_pools_table(runs),
    ]
    return "\n\n".join(parts)


def _begun_runs(recipe: Recipe, seeds: Sequence[int]) -> list[RunData]:
    """The games that have begun, in the order of the seeds."""
    roots = [RunFolder.of(replicate_recipe(recipe, seed)).root for seed in dict.fromkeys(seeds)]
    runs = [load_run(root, solution_columns=["problem_id"]) for root in roots if RunFolder(root).recipe.exists()]
    if not any(run.evaluated for run in runs):
        raise ValueError(f"No seed of `{recipe.name}` has an evaluated round in {recipe.output_dir} yet.")
    return runs


SEED_FIGURES = (
    "verifier_mixture_pair_accuracy",
    "accuracy/best_helpful",
    "accuracy_change/best_helpful",
    "valid_sneaky_change",
    "failed/sneaky",
    "score_change/sneaky_incorrect",
)


def seeds_table(runs: Sequence[RunData]) -> str:
    """Return a Markdown table with a row per seed and evaluated round: value, 95 % interval and n."""
    rows = [["seed", "round", *map(heading_of, SEED_FIGURES)]]
    for run in runs:
        for data in run.evaluated:
            cells = [show_figure(data.figure(key)) for key in SEED_FIGURES]
            rows.append([str(run.recipe.seed), str(data.round_index), *cells])
    return markdown_table(rows)


def seeds_pools_table(runs: Sequence[RunData]) -> str:
    """
    Return a Markdown table of verifiers x pools, with a row per seed and verifier and a column per prover.

    A cell is the share of the prover's sneaky mistakes that the verifier accepts, as in
    [`~pvg_hf.evaluation.verifiers_by_pools.pool_figures`].
    """
    found = [pool_cells(run, "accepted") for run in runs]
    pools = sorted({pool for cells in found for _, pool in cells})
    rows = [["seed", "verifier", *map(pool_heading, pools)]]
    for run, cells in zip(runs, found):
        for verifier in sorted({verifier for verifier, _ in cells}):
            shares = [show_figure(cells.get((verifier, pool), EMPTY)) for pool in pools]
            rows.append([str(run.recipe.seed), str(verifier), *shares])
    return markdown_table(rows)


def seeds_attacks_table(runs: Sequence[RunData]) -> str | None:
    """
    Return a Markdown table of the fresh attackers of all runs together, with a row per reward and round.

    The columns are the number that found an exploit, the Kaplan-Meier median of its step, and the p-value of the
    log-rank test against the attackers of the first attacked round. Several attackers of one game count as
    independent.
    """
    found = attack_judgements(runs)
    if not found:
        return None
    outcomes = read_attacks(found, ATTACK_OUTCOMES)
    rows = [["attacker", "verifier", "found an exploit", "steps of each", "median step", "p against the first"]]
    for kind, of_kind in outcomes.groupby("attack", sort=False):
        first = None
        for index, of_round in of_kind.groupby("round"):
            exploits = read_exploits(of_round)
            figures = exploit_figures(exploits, int(of_round["max_steps"].max()))
            p = EMPTY if first is None else log_rank_p(exploits, first)
            first = first or exploits
            steps = sorted(exploits, key=lambda exploit: (exploit.time, not exploit.is_found))
            rows.append(
                [
                    kind,
                    str(index),
                    f"{sum(exploit.is_found for exploit in exploits)} of {len(exploits)}",
                    ", ".join(str(exploit.time) if exploit.is_found else f"> {exploit.time}" for exploit in steps),
                    show_figure(figures["median_steps"], with_n=False),
                    "" if p.value is None else f"{p.value:.3f}",
                ]
            )
    return markdown_table(rows)


def means_table(runs: Sequence[RunData]) -> str:
    """
    Return a Markdown table of means over seeds: a row per figure, a column per round, and the change over all rounds.

    Seeds that have not evaluated a round, or lack a figure in it, are left out of its mean; `n` is the number of
    seeds. The change is that from the first to the last round of the table within each seed, which removes the spread
    that both rounds share.

    Args:
        runs: Runs of one recipe.
    """
    values = values_of(runs)
    rounds = sorted({index for found in values for _, index in found})
    rows = [["", *(f"round {index}" for index in rounds)]]
    if len(rounds) > 1:
        rows[0].append(f"round {rounds[-1]} less round {rounds[0]}")
    for name in names_in(values):
        columns = [[found.get((name, index), np.nan) for found in values] for index in rounds]
        if len(rounds) > 1:
            columns.append([last - first for first, last in zip(columns[0], columns[-1], strict=True)])
        rows.append([name, *(show_figure(mean_over_seeds(column)) for column in columns)])
    return markdown_table(rows)


@dataclass(frozen=True)
class Contrast:
    """
    Figures of two recipes after the same round, paired by seed.

    Args:
        names: Names of the two recipes.
        values: By name of a figure, the values of both recipes: arrays of shape `(num_seeds,)`, `nan` where a seed has
            none. At least one seed has both values.
    """

    round_index: int
    names: tuple[str, str]
    values: dict[str, tuple[np.ndarray, np.ndarray]]

    def means(self, name: str) -> tuple[Figure, Figure, Figure]:
        """Means over seeds of a figure: of the first recipe, of the second, and of the first less the second."""
        ours, theirs = self.values[name]
        return mean_over_seeds(ours), mean_over_seeds(theirs), mean_over_seeds(ours - theirs)


def contrast_recipes(runs: Sequence[RunData], others: Sequence[RunData]) -> Contrast:
    """
    Compare two recipes after the last round that all of their seeds have evaluated.

    Args:
        runs, others: Runs of either recipe. Only seeds that both have are compared.
    Raises `ValueError` if they have no seed in common with an evaluated round.
    """
    sides = [{run.recipe.seed: run for run in side if run.evaluated} for side in (runs, others)]
    seeds = [seed for seed in sides[0] if seed in sides[1]]
    if not seeds:
        raise ValueError("The two recipes have no seed in common with an evaluated round.")
    paired = [side[seed] for side in sides for seed in seeds]
    last = min(run.evaluated[-1].round_index for run in paired)
    # Verifiers are compared on the provers that both recipes have by then, and best-of-n at one n.
    pools = set.intersection(*({pool for _, pool in pool_cells(run, "accepted")} for run in paired))
    found = values_of(paired, pools={pool for pool in pools if pool <= last})
    values = {}
    for name in names_in(found):
        of_run = np.array([of_figures.get((name, last), np.nan) for of_figures in found])
        ours, theirs = of_run[: len(seeds)], of_run[len(seeds) :]
        if not np.isnan(ours - theirs).all():
            values[name] = ours, theirs
    first, second = (side[seeds[0]].recipe.name.removesuffix(f"-seed-{seeds[0]}") for side in sides)
    return Contrast(last, (first, second), values)


def contrast_table(contrast: Contrast) -> str:
    """Return a comparison as a Markdown table: a row per figure, with both means and the mean difference."""
    rows = [[f"round {contrast.round_index}", *contrast.names, "difference"]]
    rows += [[name, *map(show_figure, contrast.means(name))] for name in contrast.values]
    return markdown_table(rows)


_OF_ATTACKER = ["round", "attack", "seed", "max_steps", "num_steps", "step", "seconds"]


def raw_figures(run: RunData) -> dict[str, Any]:
    """
    Collect the figures of a run.

    Returns:
        `dict[str, Any]`: values of JSON:

        - `seed`, `commit`, and `seconds` by phase and by evaluation, each with its round;
        - `rounds`: by round, all figures as `[value, low, high, n]`; names of later evaluations begin with `judging/`;
        - `training`: by round and role, the accuracy of each RL step, `null` for a step without the role;
        - `attackers`: a row for each fresh attacker, with the steps it was trained for (`num_steps`), and the step at
          which it met the criterion of an exploit (`step`) and the one at which its scores did (`convincing_step`), if
          any.
    """
    rounds: dict[str, dict] = {}
    seconds = {f"{phase} {index}": round(value, 1) for (index, phase), value in run.phase_seconds().items()}
    for data in run.evaluated:
        rounds[str(data.round_index)] = {name: _compact(figure) for name, figure in data.figures.items()}
    for judgement in run.judgements:
        figures = rounds.setdefault(str(judgement.round_index), {})
        figures |= {f"judging/{judgement.name}/{key}": _compact(figure) for key, figure in judgement.figures.items()}
        seconds[f"judging/{judgement.name} {judgement.round_index}"] = round(judgement.seconds, 1)
    return {
        "seed": run.recipe.seed,
        "commit": run.environment.get("git_revision"),
        "seconds": seconds,
        "rounds": rounds,
        "training": {str(data.round_index): _training(data.steps) for data in run.rounds if len(data.steps)},
        "attackers": list(_attackers(run)),
    }


def _compact(figure: Figure) -> list[float | None]:
    return [value if value is None else round(value, 5) for value in (figure.value, figure.low, figure.high, figure.n)]


def _training(steps: pd.DataFrame) -> dict[str, list[float | None]]:
    columns = {role.value: f"accuracy/{role}" for role in GAME_ROLES}
    return {
        role: steps[column].round(4).replace(np.nan, None).tolist()
        for role, column in columns.items()
        if column in steps
    }


def _attackers(run: RunData) -> Iterator[dict[str, Any]]:
    found = attack_judgements([run])
    if not found:
        return
    curves = dict(iter(read_attacks(found, ATTACK_CURVES).groupby("attacker")))
    for _, row in read_attacks(found, ATTACK_OUTCOMES).iterrows():
        curve = curves[row["attacker"]]
        goal, weight = row["helpful_score"], row["newest_weight"]
        met = None if pd.isna(goal) else find_convincing(curve, helpful_score=goal, newest_weight=weight).step
        values = {name: None if pd.isna(row[name]) else row[name] for name in _OF_ATTACKER}
        yield {**values, "seconds": round(row["seconds"], 1), "convincing_step": met}


def largest_common_n(tables: Iterable[Mapping[str, Figure]], *, least_eligible: int) -> int | None:
    """
    Return the largest n at which tables of balanced best-of-n can be compared; `None` if there is none.

    The tables hold figures by n as a text, such as `64`, whose `n` counts eligible problems; other keys are ignored.
    Every table must have at least `least_eligible` of them.
    """
    sizes = [
        {int(key) for key, figure in table.items() if key.isdigit() and figure.n >= least_eligible} for table in tables
    ]
    return max(set.intersection(*sizes), default=None) if sizes else None
