"""What the people of a study made of the solutions."""

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
from numpy.typing import ArrayLike

from pvg_hf.evaluation.intervals import Figure, rate_by_problem
from pvg_hf.evaluation.resampling import mean_by_problem
from pvg_hf.seeding import derive_seed
from pvg_hf.study.study import Judgment

NUM_RESAMPLES = 1000
FIGURES = ("accuracy", "accuracy_on_correct", "accuracy_on_flawed", "seconds", "time_ran_out")


def study_results(answers: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """
    Accuracy and time by round and role.

    Args:
        answers (`Sequence[dict[str, Any]]`):
            What [`~pvg_hf.study.study.Study.answers`] returned.

    Returns:
        `pd.DataFrame`: a row for each round and role, with `num_participants` and a [`Figure`] in each of `FIGURES`:
        the share judged rightly (a solution whose time ran out was not), the same among correct and among flawed ones,
        the mean time of the answers that came in time, and the share whose time ran out. An interval allows for several
        judgments of one problem or for several by one person, whichever makes it wider.
    """
    table = pd.DataFrame(answers)
    if table.empty:
        return pd.DataFrame(columns=["round_index", "role", "num_participants", *FIGURES])
    is_late = table["judgment"] == Judgment.TIME_RAN_OUT
    is_right = ((table["judgment"] == Judgment.CORRECT) == table["correct"].astype(bool)) & ~is_late
    table = table.assign(is_late=is_late, is_right=is_right)
    rows = [
        {"round_index": round_index, "role": role, **_figures(group)}
        for (round_index, role), group in table.groupby(["round_index", "role"])
    ]
    return pd.DataFrame(rows)


def _figures(rows: pd.DataFrame) -> dict[str, Any]:
    is_correct = rows["correct"].astype(bool)
    timed = rows[~rows["is_late"] & rows["seconds"].notna()]
    seed = derive_seed("study", "seconds")
    return {
        "num_participants": rows["participant"].nunique(),
        "accuracy": _wider(rate_by_problem, rows["is_right"], rows),
        "accuracy_on_correct": _wider(rate_by_problem, rows["is_right"][is_correct], rows[is_correct]),
        "accuracy_on_flawed": _wider(rate_by_problem, rows["is_right"][~is_correct], rows[~is_correct]),
        "seconds": _wider(
            lambda values, ids: mean_by_problem(values, ids, seed=seed, num_resamples=NUM_RESAMPLES),
            timed["seconds"],
            timed,
        ),
        "time_ran_out": _wider(rate_by_problem, rows["is_late"], rows),
    }


def _wider(estimate: Callable[[ArrayLike, ArrayLike], Figure], values: pd.Series, rows: pd.DataFrame) -> Figure:
    """The figure whose interval is the wider one: problems drawn anew, or participants; none is wider than any."""
    figures = [estimate(values, rows[unit]) for unit in ("problem_id", "participant")]
    unknown = next((figure for figure in figures if figure.low is None), None)
    return unknown or max(figures, key=lambda figure: figure.high - figure.low)
