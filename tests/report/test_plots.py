"""The values that the plots draw."""

import struct
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pvg_hf.core.figure import EMPTY, Figure
from pvg_hf.core.registrations import registered
from pvg_hf.evaluation.role_figures import scored_rows
from pvg_hf.evaluation.verifiers_by_pools import pool_acceptance
from pvg_hf.report.plots import (
    PLOTS,
    plot_best_of_n,
    plot_drawn_best_of_n,
    plot_dynamics,
    plot_flaws,
    plot_over_rounds,
    plot_pool_matrix,
    plot_roc,
    plot_scores,
    plot_time_split,
)
from tests.support.plotted_run import lines_of, run

__all__ = ["run"]


@pytest.mark.parametrize("make_plot", [*PLOTS, *registered("plot")])
def test_no_data_gives_no_plot(run, make_plot):
    assert make_plot(replace(run, rounds=[], judgements=[], events=[])) is None


@pytest.mark.parametrize("make_plot", [*PLOTS, *registered("plot")])
def test_a_run_in_which_every_solution_failed_is_drawn_as_far_as_it_can_be(run, make_plot):
    def fail(table):
        return None if table is None else table.assign(outcome="NO_ANSWER", correct=False, answer=None)

    rounds = [replace(data, solutions=fail(data.solutions), pool_scores=fail(data.pool_scores)) for data in run.rounds]
    plot = make_plot(replace(run, rounds=rounds))
    assert plot is None or plot.to_png().startswith(b"\x89PNG")


@pytest.mark.parametrize("make_plot", [*PLOTS, *registered("plot")])
def test_every_plot_is_a_png_with_axes_labelled_and_terms_explained(run, make_plot):
    plot = make_plot(run)
    png = plot.to_png()
    assert png.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", png[16:24])
    assert min(width, height) > 400
    assert plot.terms
    for axes in plot.canvas.axes:
        figure_row = [other for other in plot.canvas.axes if other.get_position().x0 == axes.get_position().x0]
        assert any(other.get_xlabel() for other in figure_row)


def test_dynamics_smooth_as_the_stop_rules_do(run):
    steps = pd.DataFrame({"round": 0, "step": [1, 2, 3], "accuracy/helpful": [0.0, 1.0, None]})
    plot = plot_dynamics(replace(run, rounds=[replace(run.rounds[0], steps=steps)]))
    # Weight of the newest step: 5 / 40 planned steps. It starts at the first value, and a missing step changes
    # nothing.
    helpful = lines_of(plot.canvas.axes[0])["helpful"]
    assert helpful.get_xydata() == pytest.approx(np.array([[1, 0.0], [2, 0.125]]))


def test_dynamics_have_a_column_per_round_with_shared_axes_and_the_stop_marked(run):
    axes = plot_dynamics(run).canvas.axes
    assert [panel.get_title() for panel in axes[:3]] == ["round 0", "round 1", "round 2"]
    assert len({panel.get_ylim() for panel in axes[3:]}) == 1
    notes = [panel.get_xlabel() for panel in axes[3:]]
    assert notes == ["RL step (stop at 39 of 40)", "RL step (stop at 35 of 40)", "RL step (so far 31 of 40)"]
    assert set(lines_of(axes[3])) == {
        "helpful, correct",
        "helpful, incorrect",
        "sneaky, correct",
        "sneaky, incorrect",
    }


def test_dynamics_label_steps_and_rounds_with_overrides(run):
    shared = (
        "16 prompts with 8 solutions each (both roles together; the newest step has the weight 0.125 in the average)"
    )
    assert f"single steps of {shared}. Thick" in plot_dynamics(run).caption
    alone = {"prover": {"roles": "sneaky_only", "prompts_per_step": 4, "max_steps": 20}, "stopping": {"ema": 0.5}}
    recipe = replace(run.recipe, rounds={1: alone})
    caption = plot_dynamics(replace(run, recipe=recipe)).caption
    assert (
        f"single steps of round 0, 2: {shared}; round 1: 4 prompts with 8 solutions each (the sneaky role only; the"
        " newest step has the weight 0.5 in the average). Thick" in caption
    )


def test_best_of_n_shows_chance_intervals_and_eligible_problems(run):
    figures = {
        "best_of_n/2": Figure(0.75, 0.5, 0.875, 40),
        "best_of_n/4": Figure(0.5, None, None, 3),
        "best_of_n/8": EMPTY,
    }
    plot = plot_best_of_n(replace(run, rounds=[replace(run.rounds[0], figures=figures)]))
    shares, eligible = plot.canvas.axes
    assert set(lines_of(shares)["chance"].get_ydata()) == {0.5}
    (bars,) = shares.containers
    assert bars[0].get_ydata().tolist() == [0.75, 0.5]  # the empty figure is left out
    low, high = bars[2][0].get_segments()[0][:, 1]
    assert (low, high) == (0.5, 0.875)
    assert eligible.get_lines()[0].get_ydata().tolist() == [40, 3, 0]
    assert "40 (n=2), 3 (n=4), 0 (n=8)" in plot.caption


def test_best_of_n_is_drawn_beside_its_prediction(run):
    figures = {
        f"best_of_n{kind}/{n}": Figure(0.5 + n / 100, 0.4, 0.6, 40) for kind in ("", "_predicted") for n in (2, 4)
    }
    shares, _ = plot_best_of_n(replace(run, rounds=[replace(run.rounds[0], figures=figures)])).canvas.axes
    assert lines_of(shares)["predicted"].get_ydata().tolist() == [0.52, 0.54]


def test_roc_curves_have_a_panel_per_prover_and_a_line_per_verifier(run):
    axes = plot_roc(run).canvas.axes
    assert [panel.get_title() for panel in axes] == ["base prover", "prover 0", "prover 1"]
    assert [set(lines_of(panel)) for panel in axes] == [{"verifier 0", "verifier 1"}] * 3
    later = lines_of(axes[1])["verifier 1"].get_xydata()
    assert later[0].tolist() == [0, 0]
    assert later[-1].tolist() == [1, 1]


def test_rounds_begin_with_the_base_prover(run):
    accuracy = plot_over_rounds(run).canvas.axes[0]
    assert [label.get_text() for label in accuracy.get_xticklabels()] == ["base", "0", "1"]
    helpful = accuracy.containers[0][0].get_ydata()
    assert helpful.tolist() == [
        run.rounds[0].figure("base_accuracy/helpful").value,
        run.rounds[0].figure("accuracy/helpful").value,
        run.rounds[1].figure("accuracy/helpful").value,
    ]


def test_scores_show_each_cells_shares_and_the_threshold(run):
    data = run.rounds[0]
    axes = plot_scores(replace(run, rounds=[data])).canvas.axes[0]
    for patch in axes.patches:
        assert patch.get_data().values.sum() == pytest.approx(1)
    assert axes.get_lines()[0].get_xdata()[0] == pool_acceptance(scored_rows(data.solutions)).threshold
    helpful = data.solutions[(data.solutions["role"] == "helpful") & data.solutions["answer"].notna()]
    labels = axes.get_legend_handles_labels()[1]
    assert labels == [f"incorrect, n={(~helpful['correct']).sum()}", f"correct, n={helpful['correct'].sum()}"]


def test_scores_that_are_all_equal_can_be_drawn(run):
    flat = replace(run.rounds[0], solutions=run.rounds[0].solutions.assign(score=1.0))
    assert plot_scores(replace(run, rounds=[flat])).to_png()


def test_unscored_solutions_are_not_drawn(run):
    unscored = replace(run.rounds[0], solutions=run.rounds[0].solutions.assign(score=np.nan))
    assert plot_scores(replace(run, rounds=[unscored])) is None


def test_flaws_are_plotted_only_for_tasks_that_name_them(run):
    unknown = replace(run.rounds[0], solutions=run.rounds[0].solutions.drop(columns="first_flaw_kind"))
    assert plot_flaws(replace(run, rounds=[unknown])) is None
    plot = plot_flaws(run)
    flawed = run.rounds[0].solutions
    num_helpful = (flawed["first_flaw_kind"].notna() & (flawed["role"] == "helpful")).sum()
    assert f"round 0: {num_helpful} helpful" in plot.caption


def test_no_share_of_flaws_lies_outside_its_panel(run):
    """The helpful role has two kinds of flaws, the sneaky one only one, so that its share is 1."""
    solutions = run.rounds[0].solutions
    is_helpful = solutions["role"] == "helpful"
    kinds = np.where(is_helpful & (np.arange(len(solutions)) % 2 == 0), "wrong_operand", "malformed")
    plot = plot_flaws(replace(run, rounds=[replace(run.rounds[0], solutions=solutions.assign(first_flaw_kind=kinds))]))
    for axes in plot.canvas.axes:
        low, high = axes.get_xlim()
        assert low <= 0
        assert high >= 1


@pytest.mark.filterwarnings("error:No artists")
@pytest.mark.parametrize("make_plot", [*PLOTS, *registered("plot")])
def test_rounds_without_any_figure_are_drawn_without_a_warning(make_plot, run):
    def without_figures(data):
        return replace(data, figures=dict.fromkeys(data.figures, EMPTY))

    make_plot(replace(run, rounds=[without_figures(data) for data in run.rounds]))


def test_verifiers_by_pools_draw_every_figure_once_and_frame_the_pool_of_a_verifier(run):
    matrix, lines = plot_pool_matrix(run).canvas.axes
    texts = [text.get_text() for text in matrix.texts]
    assert len(texts) == 2 * 3  # two verifiers, and the pools of the base and of two rounds
    figure = run.rounds[1].figure("pools/accepted/round-001/round-000")
    assert f"{figure.value:.2f}\n[{figure.low:.2f}, {figure.high:.2f}]" in texts
    assert [(patch.get_x() + 0.47, patch.get_y() + 0.47) for patch in matrix.patches] == [(1, 0), (2, 1)]
    assert [label.get_text() for label in matrix.get_yticklabels()] == ["verifier 0", "verifier 1"]
    drawn = lines_of_errorbars(lines)
    assert drawn["prover 0"] == pytest.approx(
        [run.rounds[0].figure("pools/accepted/round-000/round-000").value, figure.value]
    )


def test_many_pools_are_drawn_above_their_lines(run):
    cells = {
        f"pools/accepted/round-{v:03d}/{'base' if p < 0 else f'round-{p:03d}'}": Figure(0.5, 0.4, 0.6, 50)
        for v in range(8)
        for p in range(-1, 8)
    }
    canvas = plot_pool_matrix(replace(run, rounds=[replace(run.rounds[0], figures=cells)])).canvas
    assert canvas.axes[0].get_position().y0 > canvas.axes[1].get_position().y1
    assert canvas.get_figwidth() < 13


def lines_of_errorbars(axes):
    """Values of each labelled line with error bars."""
    return {bars.get_label(): bars[0].get_ydata() for bars in axes.containers}


def test_the_drawn_pool_has_its_own_curve(run):
    shares, eligible = plot_drawn_best_of_n(run).canvas.axes
    np.testing.assert_allclose(eligible.get_lines()[0].get_xydata(), [[2, 8], [4, 3]])
    assert [text.get_text() for text in shares.get_legend().get_texts()] == ["chance", "round 1"]


def test_a_bar_has_the_seconds_of_each_kind_of_work(run):
    (axes,) = plot_time_split(run).canvas.axes
    assert [label.get_text() for label in axes.get_yticklabels()][:3] == [
        "bootstrap",
        "round 0 verifier",
        "round 0 prover",
    ]
    first = [bar for bar in axes.patches if round(bar.get_y() + bar.get_height() / 2) == 0]
    minutes = 31.5 / 60  # of the bootstrap in the fixture
    assert [bar.get_width() for bar in first] == pytest.approx([0.6 * minutes, 0.1 * minutes, 0.3 * minutes])
    assert "unknown" not in plot_time_split(run).terms
