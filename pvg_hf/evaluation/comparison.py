"""Compares two rounds, of the same run or of two."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import itemgetter

import numpy as np
import pandas as pd

from pvg_hf.core.acceptance import Acceptance
from pvg_hf.core.figure import EMPTY, Figure
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.evaluation.intervals import difference_of_ends, rate_difference
from pvg_hf.evaluation.role_figures import game_sides, has_failed, is_valid_mistake, scored_rows
from pvg_hf.evaluation.verifiers_by_pools import OWN_ACCEPTED, accepted_rows
from pvg_hf.run.read import RoundData

Trials = tuple[np.ndarray, np.ndarray]  # successes, and the problem of each


@dataclass(frozen=True)
class ComparedFigure:
    """
    A figure of two rounds, with their difference: ours minus theirs.

    The difference is paired by problem (see [`~pvg_hf.evaluation.intervals.rate_difference`]); that of the share
    accepted at a completeness is [`~pvg_hf.evaluation.intervals.difference_of_ends`]. `num_shared` problems are on
    both sides; if it is 0, the interval is that of two unrelated samples.
    """

    name: str
    ours: Figure
    theirs: Figure
    difference: Figure
    num_shared: int


def compare_rounds(ours: RoundData, theirs: RoundData) -> list[ComparedFigure]:
    """Compare the rates that two evaluated rounds have both; not scores, as each verifier has its own scale."""
    return [
        _compare(name, ours, theirs, trials)
        for name, trials in _TRIALS.items()
        if ours.figure(name).n and theirs.figure(name).n
    ]


def _compare(name: str, ours: RoundData, theirs: RoundData, trials: Callable[[RoundData], Trials]) -> ComparedFigure:
    # A run without its test solutions has figures, but no rows to pair.
    difference, num_shared = EMPTY, 0
    if ours.solutions is not None and theirs.solutions is not None:
        sides = trials(ours), trials(theirs)
        # The threshold of a share accepted at a completeness is uncertain too, which trials do not show.
        if name == OWN_ACCEPTED:
            difference = difference_of_ends(ours.figure(name), theirs.figure(name))
        else:
            difference = rate_difference(*sides[0], *sides[1])
        num_shared = len(np.intersect1d(sides[0][1].astype(str), sides[1][1].astype(str)))
    return ComparedFigure(name, ours.figure(name), theirs.figure(name), difference, num_shared)


def _role_rows(data: RoundData, role: Role) -> pd.DataFrame:
    assert data.solutions is not None
    return data.solutions[data.solutions["role"] == role.value]


def _trials(rows: pd.DataFrame, successes: pd.Series) -> Trials:
    return successes.to_numpy(float), rows["problem_id"].to_numpy(object)


def _of_role(role: Role, is_success: Callable[[pd.DataFrame], pd.Series]) -> Callable[[RoundData], Trials]:
    return lambda data: _trials(rows := _role_rows(data, role), is_success(rows))


def _accepted(data: RoundData) -> Trials:
    rows = accepted_rows(scored_rows(data.solutions))
    mistakes = rows[~rows["correct"].astype(bool)]
    return _trials(mistakes, mistakes["accepted"])


def _judged_rightly(data: RoundData, side: int) -> Trials:
    """Whether each helpful correct solution (side 0) is accepted, or each sneaky incorrect one (side 1) rejected."""
    rows = game_sides(*(_role_rows(data, role) for role in GAME_ROLES))[side]
    return _trials(rows, Acceptance(data.figure("threshold").known).accepts(rows["score"]) == (side == 0))


_TRIALS: dict[str, Callable[[RoundData], Trials]] = {
    "accuracy/helpful": _of_role(Role.HELPFUL, itemgetter("correct")),
    "accuracy/sneaky": _of_role(Role.SNEAKY, itemgetter("correct")),
    "valid_sneaky": _of_role(Role.SNEAKY, is_valid_mistake),
    "failed/helpful": _of_role(Role.HELPFUL, has_failed),
    "failed/sneaky": _of_role(Role.SNEAKY, has_failed),
    OWN_ACCEPTED: _accepted,
    "completeness": partial(_judged_rightly, side=0),
    "soundness": partial(_judged_rightly, side=1),
}
