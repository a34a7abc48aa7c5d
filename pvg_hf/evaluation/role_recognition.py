"""
Whether a verifier checks solutions, or recognises the role that wrote them.

If the roles write differently, a verifier can learn to reject whatever the sneaky role wrote. Its scores then say little about the
next prover's mistakes.
"""

import pandas as pd

from pvg_hf.core.figure import Figure
from pvg_hf.core.roles import GAME_ROLES
from pvg_hf.evaluation.intervals import share_by_problem
from pvg_hf.evaluation.verifiers_by_pools import accept_at_completeness

BY_FLAWS = ("flawless", "one_flaw", "more_flaws")
"""Kinds of solutions, for tasks that mark flaws; the first is what a verifier should accept."""

BY_ANSWER = ("correct", "incorrect")
"""Kinds of solutions, for other tasks."""


def role_recognition(rows: pd.DataFrame) -> dict[str, Figure]:
    """
    Compute how a verifier's acceptance depends on the role and on the flaws of a solution.

    A verifier that checks accepts as many solutions of one kind in either role, and fewer the more flaws they have. One that
    recognises the role accepts different shares of the same kind. The threshold is that of the comparison of verifiers: a
    share of `COMPLETENESS` of the helpful correct solutions is accepted. The intervals take it as given.

    Args:
        rows (`pd.DataFrame`):
            Scored test solutions of earlier rounds' provers in both roles that did not fail, with `problem_id`, `role`, `correct`,
            `score` and, if the task marks flaws, `num_flaws`.

    Returns:
        `dict[str, Figure]`: `accepted_role/ROLE/KIND` for each role and kind of `BY_FLAWS` or `BY_ANSWER`; `n` counts
        solutions. Without flaws, a correct solution is one with the right answer. Empty without a helpful correct solution.
    """
    accepted = accept_at_completeness(rows)
    if not len(accepted):
        return {}
    kinds = _kinds(accepted)
    return {
        f"accepted_role/{role}/{kind}": share_by_problem(part["accepted"], part["problem_id"])
        for role in GAME_ROLES
        for kind in (BY_FLAWS if "num_flaws" in accepted else BY_ANSWER)
        for part in [accepted[(accepted["role"] == role.value) & (kinds == kind)]]
    }


def _kinds(rows: pd.DataFrame) -> pd.Series:
    if "num_flaws" not in rows:
        return rows["correct"].astype(bool).map(dict(zip((True, False), BY_ANSWER)))
    return rows["num_flaws"].clip(upper=len(BY_FLAWS) - 1).map(dict(enumerate(BY_FLAWS)))
