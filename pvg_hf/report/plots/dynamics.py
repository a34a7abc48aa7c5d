"""Training curves of the prover phases, one column per round."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from pvg_hf.config import Recipe
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.report.plots.style import (
    CELL_STYLES,
    GREY,
    ROLE_STYLES,
    SHARES,
    Plot,
    Style,
    legend_beside,
    new_canvas,
    tidy,
)
from pvg_hf.run.read import RoundData, RunData

HELDOUT = "heldout/accuracy"
TERMS = {
    "accuracy": "share of a step's solutions whose final answer is correct.",
    "score": (
        "the verifier's output, unbounded; higher is more convincing. Only differences within a round mean anything."
    ),
    "RL step": "one optimiser step of the prover against the frozen verifier of the round.",
    "stop": "where the phase ended: by a rule of the recipe's section stopping, or after the planned steps.",
}


def plot_dynamics(run: RunData) -> Plot | None:
    """Accuracy and mean score by RL step (Kirchner et al. 2024, figs. 4 and 5); thick: as the stop rules see them."""
    rounds = [data for data in run.rounds if len(data.steps)]
    if not rounds:
        return None
    canvas = new_canvas(2.6 + 2.9 * len(rounds), 5.0)
    grid = canvas.subplots(2, len(rounds), sharex=True, sharey="row", squeeze=False)
    grid[0, 0].set_xlim(0, 1.05 * max(data.steps["step"].max() for data in rounds))
    grid[0, 0].xaxis.set_major_locator(MaxNLocator(integer=True))
    for column, data in enumerate(rounds):
        weights = _newest_weights(run.recipe.for_round(data.round_index))
        _draw_accuracy(grid[0, column], data.steps, weights)
        _draw_scores(grid[1, column], data.steps, weights)
        for axes in grid[:, column]:
            axes.axvline(data.steps["step"].max(), color=GREY, linewidth=1.2, linestyle=(0, (2, 2)))
        grid[0, column].set_title(f"round {data.round_index}", fontsize=11)
        grid[1, column].set_xlabel(f"RL step ({_describe_stop(run, data)})")
    grid[0, 0].set_ylabel("accuracy (share)")
    grid[1, 0].set_ylabel("mean score (verifier's units)")
    for axes in grid[:, -1]:
        legend_beside(axes)
    return Plot("dynamics", "How each prover phase went", _caption(run, rounds), canvas, TERMS)


def _newest_weights(recipe: Recipe) -> dict[str, float]:
    """Weight of the newest step in the moving averages of the stop rules, by role."""
    return {role: recipe.stopping.newest_weight(recipe.prover.training_of(role).num_batches) for role in GAME_ROLES}


def _draw_accuracy(axes: Axes, steps: pd.DataFrame, weights: Mapping[str, float]) -> None:
    for role, style in ROLE_STYLES.items():
        line = {key: style[key] for key in ("color", "linestyle", "label")}
        _draw_line(axes, steps, f"accuracy/{role}", weights[role], line)
    if HELDOUT in steps:
        heldout = steps[["step", HELDOUT]].dropna()
        style = {"color": ROLE_STYLES[Role.HELPFUL]["color"], "markerfacecolor": "white", "markersize": 5}
        axes.plot(heldout["step"], heldout[HELDOUT], "D", label="helpful, held-out problems", **style)
    axes.set_ylim(SHARES)
    tidy(axes)


def _draw_scores(axes: Axes, steps: pd.DataFrame, weights: Mapping[str, float]) -> None:
    for cell, style in CELL_STYLES.items():
        _draw_line(axes, steps, f"score/{cell}", weights[cell.partition("_")[0]], style)
    tidy(axes)


def _draw_line(axes: Axes, steps: pd.DataFrame, name: str, weight: float, style: Style) -> None:
    if name not in steps:
        return
    values = steps[["step", name]].dropna()  # a cell without a solution in a step leaves its average unchanged
    axes.plot(values["step"], values[name], color=style["color"], linewidth=0.7, alpha=0.35)
    smoothed = values[name].ewm(alpha=weight, adjust=False).mean()
    axes.plot(values["step"], smoothed, linewidth=2, **style)
    # A dot at the last step, so that a single step is visible, too.
    axes.plot(values["step"][-1:], smoothed[-1:], "o", color=style["color"], markersize=4)


def _describe_stop(run: RunData, data: RoundData) -> str:
    last, planned = int(data.steps["step"].max()), run.recipe.for_round(data.round_index).prover.planned_steps
    return f"{'stop at' if run.is_finished('prover', data.round_index) else 'so far'} {last} of {planned}"


def _caption(run: RunData, rounds: list[RoundData]) -> str:
    # Rounds are grouped by their settings: an override of single rounds needs a description of its own.
    steps: dict[str, list[str]] = {}
    for data in rounds:
        steps.setdefault(_describe_steps(run.recipe.for_round(data.round_index)), []).append(str(data.round_index))
    lengths = "; ".join(
        f"round {', '.join(indices)}: {text}" if len(steps) > 1 else text for text, indices in steps.items()
    )
    return (
        f"Thin: single steps of {lengths}. Thick: exponential moving averages of these. All on training problems,"
        " except the diamonds (held-out problems). The dotted vertical line is the stop."
    )


def _describe_steps(recipe: Recipe) -> str:
    prover = recipe.prover
    roles = {
        "shared": "both roles together",
        "separate": "first the helpful role, then the sneaky one",
        "sneaky_only": "the sneaky role only",
        "helpful_only": "the helpful role only",
    }[prover.roles]
    weights = " and ".join(dict.fromkeys(f"{weight:.3g}" for weight in _newest_weights(recipe).values()))
    return (
        f"{prover.prompts_per_step} prompts with {prover.num_generations} solutions each ({roles}; the newest step has"
        f" the weight {weights} in the average)"
    )
