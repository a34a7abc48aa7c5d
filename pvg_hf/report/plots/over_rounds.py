"""Results by round: accuracy per role, completeness and soundness, verifier quality."""

from collections.abc import Callable

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.figure import Figure
from pvg_hf.evaluation.catalogue import explain
from pvg_hf.report.plots.style import (
    BLUE,
    GREEN,
    GREY,
    ROLE_STYLES,
    SHARES,
    VERMILLION,
    Plot,
    draw_figures,
    legend_under,
    new_canvas,
    tidy,
)
from pvg_hf.run.read import RunData

TERMS = explain(["completeness", "soundness", "verifier_pair_accuracy", "test_pair_accuracy"])

# Lines of each panel: (figure, style).
PANELS = {
    "completeness and soundness": (
        ("completeness", {"color": BLUE, "marker": "o", "label": "completeness"}),
        ("soundness", {"color": VERMILLION, "marker": "s", "linestyle": "--", "label": "soundness"}),
    ),
    "verifier pair accuracy": (
        ("verifier_pair_accuracy", {"color": GREEN, "marker": "D", "label": "held-out, earlier provers"}),
        (
            "test_pair_accuracy",
            {"color": VERMILLION, "marker": "s", "linestyle": "--", "label": "test, this round's prover"},
        ),
    ),
}
SHIFTS = (-0.04, 0.04)  # sideways shift of a panel's two lines, in rounds, so that their intervals do not overlap


def plot_over_rounds(run: RunData) -> Plot | None:
    """Main figures by round, every point with its 95 % interval."""
    if not run.evaluated:
        return None
    figures = {data.round_index: data.figure for data in run.evaluated}
    canvas = draw_rounds(lambda name, index: figures[index](name), list(figures))
    return Plot("rounds", "Results round by round", _caption(run), canvas, TERMS)


def draw_rounds(figure_of: Callable[[str, int], Figure], rounds: list[int]) -> Canvas:
    """Draw the main figures; `figure_of` returns one by its name, e.g. `accuracy/helpful`, and round."""
    canvas = new_canvas(10.6, 4.4)  # inches
    accuracy, *others = canvas.subplots(1, 1 + len(PANELS), sharey=True)
    indices = [BASE_ROUND, *rounds]
    for shift, (role, style) in zip(SHIFTS, ROLE_STYLES.items()):
        figures = [figure_of(f"base_accuracy/{role}", rounds[0])]
        figures += [figure_of(f"accuracy/{role}", index) for index in rounds]
        draw_figures(accuracy, indices, figures, shift=shift, **style)
    _finish(accuracy, "accuracy on test problems", indices)
    for axes, (title, lines) in zip(others, PANELS.items()):
        for shift, (name, style) in zip(SHIFTS, lines):
            draw_figures(axes, rounds, [figure_of(name, index) for index in rounds], shift=shift, **style)
        if "accuracy" in title:
            axes.axhline(0.5, color=GREY, linewidth=1, linestyle=":", label="chance")
        _finish(axes, title, rounds)
    accuracy.set_ylabel("share")
    return canvas


def _finish(axes: Axes, title: str, indices: list[int]) -> None:
    tidy(axes)
    axes.set_title(title, fontsize=11)
    axes.set_xticks(indices, ["base" if index == BASE_ROUND else str(index) for index in indices])
    axes.set(xlabel="round", xlim=(indices[0] - 0.4, indices[-1] + 0.4), ylim=SHARES)
    legend_under(axes)


def _caption(run: RunData) -> str:
    last = run.evaluated[-1]
    counts = {
        "helpful": "accuracy/helpful",
        "sneaky": "accuracy/sneaky",
        "helpful correct": "completeness",
        "sneaky incorrect": "soundness",
    }
    solutions = ", ".join(f"{last.figure(name).n:,} {label}" for label, name in counts.items())
    pairs = (
        f"{last.figure('verifier_pair_accuracy').n:,} held-out pairs and {last.figure('test_pair_accuracy').n:,} test"
        " pairs"
    )
    return (
        f"Bars are 95 % intervals that account for several solutions per problem. Round {last.round_index}:"
        f" {solutions} solutions; {pairs}. The base is the prover before the game, prompted for the same roles."
    )
