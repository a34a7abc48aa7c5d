"""Summary and plots of a sweep over the noise of a message game."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from pvg_hf.core.figure import Figure
from pvg_hf.core.files import write_text
from pvg_hf.core.markdown import markdown_table
from pvg_hf.core.spreadsheets import to_csv
from pvg_hf.core.units import show_seconds
from pvg_hf.experimental.messages.decisions import load_world
from pvg_hf.experimental.messages.decisions.erasure_channel import ErasureChannel, solve_channel
from pvg_hf.experimental.messages.equilibrium import levels_of, seconds_of
from pvg_hf.experimental.messages.equilibrium_fits import FORMS, DeviationFit, fit_deviation, growth_statement
from pvg_hf.experimental.messages.recipe import MessageRecipe
from pvg_hf.experimental.sweep.fits import find_breakdown
from pvg_hf.experimental.sweep.level_plots import save_plot
from pvg_hf.experimental.sweep.seeds import mean_over_seeds, show_figure
from pvg_hf.report.plots.style import (
    BLUE,
    GREEN,
    GREY,
    VERMILLION,
    Plot,
    Style,
    draw_figures,
    legend_below,
    new_canvas,
    tidy,
)
from pvg_hf.run.jobs import JobFolder

LEVEL_FIGURES = ("accuracy", "completeness", "soundness", "soundness_fresh", "soundness_attack", "clean_loss")
DEVIATIONS = {
    "loss_change": "change of the clean loss (nats)",
    "decision_change": "share of decisions that differ",
    "parameter_distance": "relative distance of the verifier's parameters",
}
_FIT_STYLES: dict[str, Style] = {
    "linear": {"color": VERMILLION, "linestyle": ":"},
    "quadratic": {"color": BLUE, "linestyle": "-"},
    "power": {"color": GREEN, "linestyle": "--"},
}
_NUM_POINTS = 100


def write_equilibrium(recipe: MessageRecipe, folder: JobFolder, table: pd.DataFrame) -> None:
    """Write `summary.md`, `cells.csv` and `plots/` of a sweep."""
    write_text(folder.root / "cells.csv", to_csv(table))
    write_text(folder.summary, summarise_equilibrium(recipe, table))
    folder.plots.mkdir(exist_ok=True)
    for plot in plot_equilibrium(recipe, table[table["passes"]]):
        save_plot(plot, folder.plots)


def summarise_equilibrium(recipe: MessageRecipe, table: pd.DataFrame) -> str:
    """Summarise a sweep in Markdown: the gate, figures by level, fits of the deviations, and the breakdown level."""
    passing = table[table["passes"]]
    parts = [f"# {recipe.name}: label noise and the equilibrium", "## The clean games", _gate_table(table)]
    if passing.empty:
        parts.append("No clean game passes the gate, so that no noise result is reported.")
        return "\n\n".join(parts) + "\n"
    parts += ["## By noise level", _level_table(recipe, passing)]
    if passing["epsilon"].nunique() > 1:
        parts += ["## Deviations from the clean game of the seed", _fit_table(passing), _breakdown(passing)]
    seconds = seconds_of(recipe, levels_of(recipe))
    parts.append(
        f"Training took {show_seconds(seconds['training'])}, with judging {show_seconds(seconds['all'])} (of one"
        " worker)."
    )
    return "\n\n".join(parts) + "\n"


def _gate_table(table: pd.DataFrame) -> str:
    rows = [["seed", "accuracy", "without messages", "messages shuffled", "passes the gate"]]
    for row in table[table["epsilon"] == 0].to_dict("records"):
        figures = [f"{row[name]:.3f}" for name in ("accuracy", "accuracy_without", "accuracy_shuffled")]
        rows.append([str(row["seed"]), *figures, "yes" if row["passes"] else "no"])
    return markdown_table(rows)


def _level_table(recipe: MessageRecipe, table: pd.DataFrame) -> str:
    names = [name for name in (*LEVEL_FIGURES, *DEVIATIONS) if name in table]
    closed = closed_forms(recipe, sorted(table["epsilon"].unique()))
    rows = [["epsilon", *(name.replace("_", " ") for name in names), *closed.columns]]
    for epsilon, of_level in table.groupby("epsilon"):
        means = [show_figure(mean_over_seeds(of_level[name]), with_n=False) for name in names]
        rows.append([f"{epsilon:g}", *means, *(f"{value:.3f}" for value in closed.loc[epsilon])])
    return (
        f"Means over {table['seed'].nunique()} seed(s), with 95 % intervals by Student's t.\n\n{markdown_table(rows)}"
    )


def closed_forms(recipe: MessageRecipe, levels: list[float]) -> pd.DataFrame:
    """Return the channel's closed forms by noise level, for the erasure channel; without columns for other worlds."""
    world = load_world(recipe.world.name, **recipe.world.options)
    if not isinstance(world, ErasureChannel):
        return pd.DataFrame(index=levels)
    optima = [solve_channel(world, level) for level in levels]
    columns = {
        "closed form: soundness when checking": [optimum.soundness_checking for optimum in optima],
        "closed form: clean loss when checking": [optimum.clean_loss_checking for optimum in optima],
        "closed form: clean loss without messages": [optimum.clean_loss for optimum in optima],
    }
    return pd.DataFrame(columns, index=levels)


def _fit_table(table: pd.DataFrame) -> str:
    rows = [["deviation", "form", "parameters", "R²", "BIC"]]
    for name in DEVIATIONS:
        for fit in _fits(table, name):
            params = ", ".join(f"{key} = {show_figure(value, with_n=False)}" for key, value in fit.params.items())
            explained = "none" if fit.r_squared is None else f"{fit.r_squared:.3f}"
            rows.append([name.replace("_", " "), fit.form, params, explained, f"{fit.bic:.1f}"])
    statements = [f"- {DEVIATIONS[name]}: {growth_statement(table['epsilon'], table[name])}." for name in DEVIATIONS]
    forms = (
        "linear a e, quadratic a e + b e², power a e^k; each is 0 without noise. BIC penalises each parameter; lower"
        " is better."
    )
    return "\n\n".join([forms, markdown_table(rows), "\n".join(statements)])


def _fits(table: pd.DataFrame, name: str) -> Iterator[DeviationFit]:
    for form in FORMS:
        fit = fit_deviation(table["epsilon"], table[name], form)
        if fit is not None:
            yield fit


def _breakdown(table: pd.DataFrame) -> str:
    by_seed = table.pivot(index="epsilon", columns="seed", values="accuracy")
    clean = by_seed.loc[0.0]
    found = find_breakdown(by_seed, clean, pd.Series(table["chance"].max(), index=clean.index))
    if found is None or found.level is None:
        return "The mean accuracy does not fall halfway to chance within these levels."
    spread = f"{found.lowest:.3f} to {found.highest:.3f}" if found.num_broken else "none"
    return (
        "Breakdown, where the accuracy is halfway between that of the clean game and chance: epsilon"
        f" {found.level:.3f} (mean), {spread} among the {found.num_broken} of {found.num_seeds} seeds that break down."
    )


def plot_equilibrium(recipe: MessageRecipe, table: pd.DataFrame) -> Iterator[Plot]:
    """Plot a sweep. Yields: [`Plot`]: `levels`, and `deviations` with fitted curves; none without noisy levels."""
    if table["epsilon"].nunique() < 2:
        return
    caption = f"Means over {table['seed'].nunique()} seed(s), with 95 % intervals by Student's t."
    canvas = new_canvas(10.4, 4.0)
    shares, loss = canvas.subplots(1, 2)
    for name, color, marker in (("accuracy", BLUE, "o"), ("completeness", GREEN, "s"), ("soundness", VERMILLION, "D")):
        draw_figures(shares, *_means(table, name), color=color, marker=marker, label=name)
    shares.axhline(table["chance"].max(), color=GREY, linewidth=1, linestyle=":")
    draw_figures(loss, *_means(table, "clean_loss"), color=BLUE, marker="o", label="clean loss")
    closed = closed_forms(recipe, np.linspace(0, table["epsilon"].max(), _NUM_POINTS).tolist())
    for number, name in enumerate(closed.columns):
        axes = shares if "soundness" in name else loss
        axes.plot(
            closed.index, closed[name], color=GREY, linewidth=1.2, linestyle=("-", "--", "-.")[number], label=name
        )
    for axes, title in ((shares, "share of test problems"), (loss, "clean loss (nats)")):
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("rate of flipped labels", fontsize=9)
        tidy(axes)
    legend_below(canvas, 3)
    yield Plot("levels", "Noise levels", caption, canvas)
    canvas = new_canvas(11.0, 3.6)
    for axes, (name, title) in zip(canvas.subplots(1, len(DEVIATIONS)), DEVIATIONS.items()):
        draw_figures(axes, *_means(table, name), color=GREY, marker="o", linestyle="none", label="mean over seeds")
        grid = np.linspace(1e-3, table["epsilon"].max(), _NUM_POINTS)
        for fit in _fits(table, name):
            axes.plot(grid, fit(grid), linewidth=1.2, label=f"{fit.form} fit", **_FIT_STYLES[fit.form])
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("rate of flipped labels", fontsize=9)
        tidy(axes)
    legend_below(canvas)
    yield Plot("deviations", "Deviations from the clean game", caption, canvas)


def _means(table: pd.DataFrame, name: str) -> tuple[list[float], list[Figure]]:
    by_level = table.groupby("epsilon")[name]
    return list(by_level.groups), [mean_over_seeds(values) for _, values in by_level]
