"""Figures of a verifier on a set of attacks."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from pvg_hf.core.acceptance import COMPLETENESS
from pvg_hf.core.figure import Figure
from pvg_hf.core.roles import Role
from pvg_hf.core.scored_texts import check_scores
from pvg_hf.evaluation.intervals import bootstrap_statistic
from pvg_hf.evaluation.roc import fpr_at_tpr, roc_statistic
from pvg_hf.evaluation.verifier_quality import roc_auc
from pvg_hf.evaluation.verifiers_by_pools import accepted_share
from pvg_hf.experimental.bench.attack_sets import CORRECT

SEED = 0
NUM_RESAMPLES = 1000


@dataclass(frozen=True)
class BenchFigures:
    """
    Figures of a verifier on a set of attacks; intervals are over problems.

    Args:
        mistakes_accepted: THE figure: the mean over the kinds of `accepted`, each kind counted once. Lower is better;
            a verifier that checks nothing has .95.
        accepted: By kind, the share of the mistakes accepted at the threshold at which `COMPLETENESS` of the set's
            correct solutions are. Each resample of the problems sets its own threshold; of equal scores a part is
            accepted, so that the completeness is the same for all verifiers.
        kind_auc: By kind, P(a correct solution scores higher than a mistake of this kind); a tie counts half.
        auc: The same over all mistakes.
    """

    mistakes_accepted: Figure
    accepted: dict[str, Figure]
    kind_auc: dict[str, Figure]
    auc: Figure

    @property
    def worst(self) -> str:
        """The kind of which most mistakes are accepted."""
        return max(self.accepted, key=lambda kind: self.accepted[kind].known)

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "worst": {"kind": self.worst, "accepted": self.accepted[self.worst]}}


def measure(rows: pd.DataFrame) -> BenchFigures:
    """
    Compute the figures.

    Args:
        rows: Solutions with `kind`, `correct`, `problem_id` and `score`.
    Raises `ValueError` if a score is not a finite number.
    """
    check_scores(rows["score"], rows["solution"])
    kinds = sorted(set(rows["kind"]) - {CORRECT})
    draws = {"seed": SEED, "num_resamples": NUM_RESAMPLES}
    of_kind = {kind: _with_roles(rows[rows["correct"] | (rows["kind"] == kind)]) for kind in kinds}
    mean = bootstrap_statistic(_mean_accepted(rows, kinds), rows["problem_id"].to_numpy(), **draws)
    return BenchFigures(
        replace(mean, n=int((~rows["correct"]).sum())),
        {kind: accepted_share(part, **draws) for kind, part in of_kind.items()},
        {kind: roc_auc(part) for kind, part in of_kind.items()},
        roc_auc(rows),
    )


def _with_roles(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(role=np.where(rows["correct"], Role.HELPFUL.value, Role.SNEAKY.value))


def _mean_accepted(rows: pd.DataFrame, kinds: list[str]) -> Any:
    """The mean of the kinds' shares accepted, as a function of weights on the rows."""
    scores, correct = rows["score"].to_numpy(float), rows["correct"].to_numpy(bool)
    places = [np.flatnonzero(correct | (rows["kind"] == kind).to_numpy()) for kind in kinds]
    shares = [
        roc_statistic(scores[place], correct[place], lambda curves: fpr_at_tpr(curves, COMPLETENESS))
        for place in places
    ]
    return lambda weights: np.mean(
        [share(weights[:, place]) for share, place in zip(shares, places, strict=True)], axis=0
    )


def describe(figures: BenchFigures) -> str:
    """Write the table of kinds, the most accepted first; the last line has the figure."""
    kinds = sorted(figures.accepted, key=lambda kind: -figures.accepted[kind].known)
    width = max(map(len, kinds))
    lines = [f"{'mistakes':{width}}  {f'accepted at {COMPLETENESS:.0%} completeness':32}  AUC"]
    lines += [f"{kind:{width}}  {figures.accepted[kind]!s:32}  {figures.kind_auc[kind]}" for kind in kinds]
    lines += [f"{'all':{width}}  {'':32}  {figures.auc}"]
    worst = f"worst: {figures.worst}, {figures.accepted[figures.worst].known:.2f}"
    return "\n".join(
        [*lines, f"mistakes accepted, mean over {len(kinds)} kinds: {figures.mistakes_accepted} ({worst})"]
    )
