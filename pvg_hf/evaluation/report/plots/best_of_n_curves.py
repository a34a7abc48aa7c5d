"""Balanced best-of-n over rounds (Kirchner et al. 2024, fig. 6b)."""

from typing import Any

from matplotlib.axes import Axes

from pvg_hf.evaluation.report.plots.style import GREY, Plot, draw_figures, legend_beside, new_canvas, round_style, tidy
from pvg_hf.run.read import RoundData, RunData

PREFIX, PREDICTED = "best_of_n/", "best_of_n_predicted/"
TERMS = {
    "balanced best-of-n": "the highest-scoring of n/2 correct and n/2 incorrect solutions of the helpful prover; the share of "
    "problems where it is correct. A robust verifier stays high as n grows; below .5 it prefers convincing mistakes.",
    "predicted": "dotted lines: what the ROC curve of all helpful solutions implies if all problems are alike "
    "(Dorner et al. 2025). A measured line above it shows a verifier that orders the solutions of one problem better.",
    "eligible": "problems with at least n/2 correct and n/2 incorrect solutions.",
}


def plot_best_of_n(run: RunData) -> Plot | None:
    """Share of correct choices by n (upper panel), and the number of eligible problems (lower panel)."""
    rounds = [data for data in run.evaluated if any(data.figure(f"{PREFIX}{n}").n for n in sizes(data))]
    if not rounds:
        return None
    canvas = new_canvas(7.6, 5.0)
    shares, eligible = canvas.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    for position, data in enumerate(rounds):
        style = round_style(position, len(rounds))
        figures = [data.figure(f"{PREFIX}{n}") for n in sizes(data)]
        # Shift the rounds sideways, by a factor because the axis is logarithmic, so that their intervals do not overlap.
        places = [n * 1.03 ** (position - (len(rounds) - 1) / 2) for n in sizes(data)]
        draw_figures(shares, places, figures, label=f"round {data.round_index}", **style)
        _draw_predicted(shares, places, data, style["color"], label="predicted" if position == 0 else None)
        eligible.plot(sizes(data), [figure.n for figure in figures], markersize=5, linewidth=1.5, **style)
    shares.axhline(0.5, color=GREY, linewidth=1, linestyle=":", label="chance")
    ticks = sorted({n for data in rounds for n in sizes(data)})
    eligible.set_xscale("log", base=2)
    eligible.set_xticks(ticks, [str(n) for n in ticks], minor=False)
    eligible.set_xlabel("n (solutions to choose from, half of them correct)")
    eligible.set_ylabel("eligible\nproblems")
    eligible.set_ylim(bottom=0)
    shares.set_ylabel("share of correct choices")
    shares.set_ylim(min(0.4, shares.get_ylim()[0]), 1.02)
    legend_beside(shares)
    for axes in (shares, eligible):
        tidy(axes)
    return Plot("best_of_n", "Can the verifier be trusted to choose?", _caption(rounds), canvas, TERMS)


def _draw_predicted(axes: Axes, places: list[float], data: RoundData, color: Any, label: str | None) -> None:
    values = [data.figure(f"{PREDICTED}{n}").value for n in sizes(data)]
    if None not in values:  # an older version made no prediction
        axes.plot(places, values, color=color, linewidth=1, linestyle=(0, (1, 2)), label=label)


def sizes(data: RoundData) -> list[int]:
    """Values of n that were measured in a round, in ascending order."""
    return sorted(int(name.removeprefix(PREFIX)) for name in data.figures if name.startswith(PREFIX))


def _caption(rounds: list[RoundData]) -> str:
    counts = "; ".join(
        f"round {data.round_index}: " + ", ".join(f"{data.figure(f'{PREFIX}{n}').n} (n={n})" for n in sizes(data))
        for data in rounds
    )
    return (
        f"Expected share of correct choices over all balanced draws, by the round's own verifier, with 95 % intervals. "
        f"Eligible problems: {counts}."
    )
