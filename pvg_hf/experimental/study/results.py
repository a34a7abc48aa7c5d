"""Results of a study: accuracy and time of the participants, as a table and as a plot."""

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
from numpy.typing import ArrayLike

from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.figure import Figure
from pvg_hf.core.seeding import derive_seed
from pvg_hf.evaluation.intervals import mean_by_problem, rate_by_problem
from pvg_hf.experimental.study.participants import Judgment
from pvg_hf.report.plots.style import GREY, ROLE_STYLES, Plot, draw_figures, legend_under, new_canvas, tidy
from pvg_hf.report.tables import count_noun

NUM_RESAMPLES = 1000

FIGURES = ("accuracy", "accuracy_on_correct", "accuracy_on_flawed", "seconds", "time_ran_out")


def study_results(answers: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """
    Accuracy and time by round and role.

    Returns: one row per round and role, with `num_participants` and a [`Figure`] in each of `FIGURES`: the share
        judged correctly (a timeout counts as wrong), the same share among correct and among flawed solutions, the mean
        time of the answers without timeout, and the share of timeouts. Each interval is clustered by problem or by
        participant, whichever is wider.
    """
    table = pd.DataFrame(answers)
    if table.empty:
        return pd.DataFrame(columns=["round_index", "role", "num_participants", *FIGURES])
    is_late = table["judgment"] == Judgment.TIME_RAN_OUT
    # A timeout is always wrong, also on a flawed solution: no judgment was given.
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
        "accuracy": _wider_interval(rate_by_problem, rows["is_right"], rows),
        "accuracy_on_correct": _wider_interval(rate_by_problem, rows["is_right"][is_correct], rows[is_correct]),
        "accuracy_on_flawed": _wider_interval(rate_by_problem, rows["is_right"][~is_correct], rows[~is_correct]),
        "seconds": _wider_interval(
            lambda values, ids: mean_by_problem(values, ids, seed=seed, num_resamples=NUM_RESAMPLES),
            timed["seconds"],
            timed,
        ),
        "time_ran_out": _wider_interval(rate_by_problem, rows["is_late"], rows),
    }


def _wider_interval(
    estimate: Callable[[ArrayLike, ArrayLike], Figure], values: pd.Series, rows: pd.DataFrame
) -> Figure:
    """
    Estimate with clusters of problems and of participants, and return the wider interval; a missing one counts as
    widest.
    """
    figures = [estimate(values, rows[unit]) for unit in ("problem_id", "participant")]
    unknown = next((figure for figure in figures if figure.low is None), None)
    return unknown or max(figures, key=lambda figure: figure.high - figure.low)


TERMS = {
    "accuracy": (
        "share of solutions that people judged correctly; a solution whose time ran out counts as judged wrongly."
    ),
    "time": "mean seconds of the answers given in time.",
}

_SHIFTS = (-0.06, 0.06)  # sideways shift of the two roles, in rounds, so that their intervals do not overlap


def plot_study(results: pd.DataFrame, seconds: float) -> Plot | None:
    """Plot accuracy and time by round, with a line for each role."""
    if results.empty:
        return None
    canvas = new_canvas(8.4, 4.0)
    accuracy, time = canvas.subplots(1, 2)
    rounds = sorted(results["round_index"].unique())
    for axes, figure, title in ((accuracy, "accuracy", "accuracy of people"), (time, "seconds", "time (seconds)")):
        for shift, (role, style) in zip(_SHIFTS, ROLE_STYLES.items()):
            rows = results[results["role"] == role.value]
            draw_figures(axes, list(rows["round_index"]), list(rows[figure]), shift=shift, **style)
        tidy(axes)
        axes.set_title(title, fontsize=11)
        axes.set_xlabel("round")
        axes.set_xticks(rounds, ["base" if index == BASE_ROUND else str(index) for index in rounds])
        axes.set_xlim(rounds[0] - 0.4, rounds[-1] + 0.4)
        legend_under(axes)
    accuracy.axhline(0.5, color=GREY, linewidth=1, linestyle=":")
    accuracy.set_ylim(-0.02, 1.02)
    time.set_ylim(0, seconds)
    num_answers = sum(figure.n for figure in results["accuracy"])
    caption = f"{count_noun(num_answers, 'answer')}, with 95 % intervals. The dotted line is chance."
    return Plot("study", "How people judged the solutions", caption, canvas, TERMS)
