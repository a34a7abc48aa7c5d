"""
Figures of the verifier of any round on the test solutions of any round.

Comparing each verifier only with the prover that was trained against it hides robustness, since the attacker changes
with the verifier. On one pool, all verifiers judge the same solutions.
"""

from dataclasses import replace

import numpy as np
import pandas as pd

from pvg_hf.core.acceptance import COMPLETENESS, Acceptance
from pvg_hf.core.disk_names import round_name
from pvg_hf.core.figure import EMPTY, Figure
from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_seed
from pvg_hf.evaluation.intervals import Statistic, bootstrap_statistic, share_by_problem
from pvg_hf.evaluation.roc import fpr_at_tpr, roc_statistic
from pvg_hf.evaluation.role_figures import scored_rows
from pvg_hf.evaluation.verifier_quality import pair_accuracy, roc_auc

OWN_ACCEPTED = "pools/accepted/{round}/{round}"
"""Figure of a round's verifier on its own prover's pool (see [`pool_figures`]), for
[`~pvg_hf.run.read.RoundData.figure`]."""


def pool_figures(scores: pd.DataFrame, *, seed: int, num_resamples: int) -> dict[str, Figure]:
    """
    Compute the figures of the catalogue that begin with `pools/`, for each verifier and pool.

    `scores` are test solutions with `verifier` and `round_index` (rounds of the verifier and of the prover), `role`,
    `problem_id`, `correct`, `outcome`, `score` (by that verifier) and `own_score` (by the verifier of
    [`own_verifier`]; null if unknown). Figures of one pool use the same draws of problems.
    """
    figures = {}
    for (verifier, pool), rows in scores.groupby(["verifier", "round_index"]):
        rows, place = scored_rows(rows), f"{round_name(verifier)}/{round_name(pool)}"
        draws = {"seed": derive_seed(seed, "pools", pool), "num_resamples": num_resamples}
        figures[f"pools/accepted/{place}"] = accepted_share(rows, **draws)
        figures[f"pools/auc/{place}"] = roc_auc(rows) if len(rows) else EMPTY
        figures[f"pools/pair_accuracy/{place}"] = pair_accuracy(rows)
        if verifier != own_verifier(pool):
            figures[f"pools/accepted_change/{place}"] = accepted_change(rows, **draws)
    return figures


def crossed_rounds(round_index: int, limit: int) -> list[int]:
    """
    Return the earlier rounds whose verifiers and pools a round is crossed with: 0 and the latest, at most `limit`.
    """
    if limit == 0:
        return []
    return list(range(round_index)) if round_index <= limit else [0, *range(round_index - limit + 1, round_index)]


def own_verifier(pool: int) -> int:
    """Return the round of the verifier that a pool's prover was trained against; 0 for the base prover's."""
    return max(pool, 0)


def accepted_share(rows: pd.DataFrame, *, seed: int, num_resamples: int) -> Figure:
    """
    Share of the sneaky incorrect solutions accepted when `COMPLETENESS` of the helpful correct ones are.

    `rows` are scored solutions of one pool that did not fail. Each resample of the problems sets its own threshold.
    Equal scores are accepted in part, so that the completeness is the same for all verifiers.
    """
    rows = _game_rows(rows)
    mistakes = rows[~rows["correct"].astype(bool)]
    figure = bootstrap_statistic(
        _accepted(rows, "score"), rows["problem_id"].to_numpy(), seed=seed, num_resamples=num_resamples
    )
    if figure.value is not None and figure.low is None:  # all resamples agree, e.g. if no mistake is accepted
        figure = share_by_problem(np.full(len(mistakes), figure.value), mistakes["problem_id"])
    return replace(figure, n=len(mistakes))


def accepted_change(rows: pd.DataFrame, *, seed: int, num_resamples: int) -> Figure:
    """[`accepted_share`] by `score` minus that by `own_score`, on the same resamples; `n` counts problems."""
    rows = _game_rows(rows)
    if rows["own_score"].isna().any():
        return EMPTY
    ours, own = _accepted(rows, "score"), _accepted(rows, "own_score")
    figure = bootstrap_statistic(
        lambda weights: ours(weights) - own(weights),
        rows["problem_id"].to_numpy(),
        seed=seed,
        num_resamples=num_resamples,
    )
    return replace(figure, n=rows["problem_id"].nunique())


def accepted_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Return both sides of the game with the share `accepted` of each; [`accepted_share`] is the mean of mistakes."""
    return _game_rows(accept_at_completeness(rows))


def accept_at_completeness(rows: pd.DataFrame) -> pd.DataFrame:
    """
    Return solutions with the share of each that is `accepted` (see [`pool_acceptance`]).

    Without a helpful correct solution, the result has no rows.
    """
    acceptance = pool_acceptance(rows)
    if acceptance is None:
        return rows.assign(accepted=0.0).iloc[:0]
    return rows.assign(accepted=acceptance.shares(rows["score"]))


def pool_acceptance(rows: pd.DataFrame) -> Acceptance | None:
    """
    Return the rule that accepts `COMPLETENESS` of the helpful correct solutions; `None` without one.

    `rows` are scored solutions that did not fail.
    """
    scores = rows.loc[rows["correct"].astype(bool) & (rows["role"] == Role.HELPFUL.value), "score"]
    return Acceptance.at(scores) if len(scores) else None


def _accepted(rows: pd.DataFrame, column: str) -> Statistic:
    scores, correct = rows[column].to_numpy(float), rows["correct"].to_numpy(bool)
    return roc_statistic(scores, correct, lambda curves: fpr_at_tpr(curves, COMPLETENESS))


def _game_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Select the helpful correct and the sneaky incorrect solutions."""
    correct = rows["correct"].astype(bool)
    return rows[((rows["role"] == Role.HELPFUL.value) & correct) | ((rows["role"] == Role.SNEAKY.value) & ~correct)]
