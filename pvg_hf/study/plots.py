"""A study's results as a plot, in the look of the report."""

import pandas as pd

from pvg_hf.data.schema import BASE_ROUND
from pvg_hf.evaluation.report.plots.style import GREY, ROLE_STYLES, Plot, draw_figures, legend_under, new_canvas, tidy
from pvg_hf.evaluation.report.tables import counted

TERMS = {
    "accuracy": "share of solutions that people judged rightly; one whose time ran out counts as judged wrongly.",
    "time": "mean seconds of the answers that came in time.",
}
_SHIFTS = (-0.06, 0.06)  # of the two roles, in rounds


def plot_study(results: pd.DataFrame, seconds: float) -> Plot | None:
    """
    Accuracy and time by round, a line for each role.

    Args:
        results (`pd.DataFrame`):
            What [`~pvg_hf.study.results.study_results`] returned.
        seconds (`float`):
            The limit.
    """
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
    caption = f"{counted(num_answers, 'answer')}, with 95 % intervals. The dotted line is chance."
    return Plot("study", "How people judged the solutions", caption, canvas, TERMS)
