"""What each round came to: accuracy per role, completeness and soundness, verifier quality."""

from matplotlib.axes import Axes

from pvg_hf.data.schema import BASE_ROUND
from pvg_hf.evaluation.report.plots.style import (
    BLUE,
    GREEN,
    ROLE_STYLES,
    VERMILLION,
    Plot,
    draw_figures,
    legend_under,
    new_canvas,
    tidy,
)
from pvg_hf.evaluation.report.run_data import RunData

TERMS = {
    "completeness": "share of helpful correct solutions that the verifier accepts.",
    "soundness": "share of sneaky incorrect solutions that it rejects (1 - exploit rate).",
    "accepted": "scored above the threshold with the highest TPR - FPR on held-out problems.",
    "pair accuracy": "share of (correct, incorrect) pairs of one problem in which the correct solution scores higher.",
}


def plot_over_rounds(run: RunData) -> Plot | None:
    """Every point with its 95 % interval."""
    rounds = run.evaluated
    if not rounds:
        return None
    canvas = new_canvas(10.6, 4.4)
    accuracy, game, verifier = canvas.subplots(1, 3, sharey=True)
    indices = [data.round_index for data in rounds]
    for shift, (role, style) in zip((-0.04, 0.04), ROLE_STYLES.items()):
        base = rounds[0].figure(f"base_accuracy/{role}")
        figures = [base, *(data.figure(f"accuracy/{role}") for data in rounds)]
        draw_figures(accuracy, [BASE_ROUND, *indices], figures, shift=shift, **style)
    panels = (
        (game, "completeness", {"color": BLUE, "marker": "o", "label": "completeness"}),
        (game, "soundness", {"color": VERMILLION, "marker": "s", "linestyle": "--", "label": "soundness"}),
        (verifier, "verifier_pair_accuracy", {"color": GREEN, "marker": "D", "label": "held-out, earlier provers"}),
        (
            verifier,
            "test_pair_accuracy",
            {"color": VERMILLION, "marker": "s", "linestyle": "--", "label": "test, this round's prover"},
        ),
    )
    for number, (axes, name, style) in enumerate(panels):
        draw_figures(axes, indices, [data.figure(name) for data in rounds], shift=0.08 * (number % 2) - 0.04, **style)
    verifier.axhline(0.5, color="#666666", linewidth=1, linestyle=":", label="chance")
    _finish(accuracy, "accuracy on test problems", [BASE_ROUND, *indices])
    _finish(game, "completeness and soundness", indices)
    _finish(verifier, "verifier pair accuracy", indices)
    accuracy.set_ylabel("share")
    return Plot("rounds", "What each round came to", _caption(run), canvas, TERMS)


def _finish(axes: Axes, title: str, indices: list[int]) -> None:
    tidy(axes)
    axes.set_title(title, fontsize=11)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel("round")
    axes.set_xticks(indices, ["base" if index == BASE_ROUND else str(index) for index in indices])
    axes.set_xlim(indices[0] - 0.4, indices[-1] + 0.4)
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
    pairs = f"{last.figure('verifier_pair_accuracy').n:,} held-out pairs and {last.figure('test_pair_accuracy').n:,} test pairs"
    return (
        f"Bars are 95 % intervals that allow for several solutions to one problem. Round {last.round_index}: {solutions} "
        f"solutions; {pairs}. The base is the prover before the game, told of the same roles."
    )
