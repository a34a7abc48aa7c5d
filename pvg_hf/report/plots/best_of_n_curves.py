"""Balanced best-of-n over rounds (Kirchner et al. 2024, fig. 6b)."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from pvg_hf.core.figure import Figure
from pvg_hf.evaluation.catalogue import explain
from pvg_hf.report.plots.style import GREY, Plot, draw_figures, legend_beside, new_canvas, round_style, tidy
from pvg_hf.run.read import RoundData, RunData

PREFIX, PREDICTED = "best_of_n/", "best_of_n_predicted/"
ELIGIBLE = {"eligible": "problems with at least n/2 correct and n/2 incorrect solutions."}
TERMS = {**explain([f"{PREFIX}n", f"{PREDICTED}n"]), **ELIGIBLE}

DRAWN = "best_of_n"  # evaluation with a pool drawn for it
DRAWN_TERMS = {
    "drawn for it": "solutions that the round's helpful prover (its last checkpoint) wrote for this measure alone.",
    **ELIGIBLE,
}

Curve = dict[int, Figure]


def plot_best_of_n(run: RunData) -> Plot | None:
    """Share of correct choices by n (upper panel), and the number of eligible problems (lower panel)."""
    rounds = [data for data in run.evaluated if any(data.figure(f"{PREFIX}{n}").n for n in sizes(data))]
    if not rounds:
        return None
    curves = {data.round_index: {n: data.figure(f"{PREFIX}{n}") for n in sizes(data)} for data in rounds}
    canvas, shares = _draw_curves(curves)
    for position, data in enumerate(rounds):
        color = round_style(position, len(rounds))["color"]
        places = _places(sizes(data), position, len(rounds))
        _draw_predicted(shares, places, data, color, label="predicted" if position == 0 else None)
    legend_beside(shares)
    return Plot("best_of_n", "Can the verifier be trusted to choose?", _caption(curves), canvas, TERMS)


def plot_drawn_best_of_n(run: RunData) -> Plot | None:
    """The same from the large pools of the evaluation `best_of_n`, for n up to their size."""
    found = [judgement for judgement in run.judgements if judgement.name == DRAWN]
    curves = {
        judgement.round_index: {int(key): figure for key, figure in judgement.figures.items() if key.isdigit()}
        for judgement in found
    }
    if not any(figure.n for curve in curves.values() for figure in curve.values()):
        return None
    canvas, shares = _draw_curves(curves)
    legend_beside(shares)
    return Plot("drawn_best_of_n", "Choosing from a pool drawn for it", _caption(curves), canvas, DRAWN_TERMS)


def _draw_curves(curves: Mapping[int, Curve]) -> tuple[Canvas, Axes]:
    """Draw the curves of rounds, and return the canvas and its upper panel, without a legend."""
    canvas = new_canvas(7.6, 5.0)
    shares, eligible = canvas.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    for position, (round_index, curve) in enumerate(curves.items()):
        style = round_style(position, len(curves))
        places = _places(list(curve), position, len(curves))
        draw_figures(shares, places, list(curve.values()), label=f"round {round_index}", **style)
        eligible.plot(list(curve), [figure.n for figure in curve.values()], markersize=5, linewidth=1.5, **style)
    shares.axhline(0.5, color=GREY, linewidth=1, linestyle=":", label="chance")
    ticks = sorted({n for curve in curves.values() for n in curve})
    eligible.set_xscale("log", base=2)
    eligible.set_xticks(ticks, [str(n) for n in ticks], minor=False)
    eligible.set(xlabel="n (solutions to choose from, half of them correct)", ylabel="eligible\nproblems")
    eligible.set_ylim(bottom=0)
    shares.set(ylabel="share of correct choices", ylim=(min(0.4, shares.get_ylim()[0]), 1.02))
    for axes in (shares, eligible):
        tidy(axes)
    return canvas, shares


def _places(ns: Sequence[int], position: int, num_rounds: int) -> list[float]:
    """Shift a round sideways, by a factor because the axis is logarithmic, so that intervals do not overlap."""
    return [n * 1.03 ** (position - (num_rounds - 1) / 2) for n in ns]


def _draw_predicted(axes: Axes, places: list[float], data: RoundData, color: Any, label: str | None) -> None:
    values = [value for n in sizes(data) if (value := data.figure(f"{PREDICTED}{n}").value) is not None]
    if len(values) == len(places):
        axes.plot(places, values, color=color, linewidth=1, linestyle=(0, (1, 2)), label=label)


def sizes(data: RoundData) -> list[int]:
    """Values of n that were measured in a round, in ascending order."""
    return sorted(int(name.removeprefix(PREFIX)) for name in data.figures if name.startswith(PREFIX))


def _caption(curves: Mapping[int, Curve]) -> str:
    counts = "; ".join(
        f"round {round_index}: " + ", ".join(f"{figure.n} (n={n})" for n, figure in curve.items())
        for round_index, curve in curves.items()
    )
    return (
        "Expected share of correct choices over all balanced draws, by the round's own verifier, with 95 % intervals."
        f" Eligible problems: {counts}."
    )
