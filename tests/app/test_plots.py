"""Points of the app's plots."""

import gradio as gr
import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import expect

from pvg_hf.app.plots import ROUND_PLOTS, VERIFIER_PLOTS, update_plots
from pvg_hf.app.runs import OpenRun
from pvg_hf.run.read import RunData

PLOTS = {plot.name: plot for plot in (*ROUND_PLOTS, *VERIFIER_PLOTS)}


@pytest.fixture(scope="module")
def data(arithmetic_run):
    return OpenRun(arithmetic_run).data()


@pytest.mark.parametrize("name", PLOTS)
def test_every_plot_has_points_of_known_values(data, name):
    frame = PLOTS[name].frame(data)
    assert len(frame) > 0
    assert frame.columns.is_unique
    assert np.isfinite(frame[PLOTS[name].axes[1]]).all()
    if PLOTS[name].is_share:
        assert frame[PLOTS[name].axes[1]].between(0, 1).all()


@pytest.mark.parametrize("name", [name for name, plot in PLOTS.items() if plot.axes[0] != "step"])
def test_a_game_of_one_round_has_no_line_of_a_single_point(data, name):
    """Gradio draws nothing for it."""
    plot = PLOTS[name]
    one_round = RunData(data.recipe, data.recipe_text, data.environment, data.events, data.rounds[:1])
    counts = plot.frame(one_round)["series"].value_counts()
    assert plot.kind is not gr.LinePlot or counts.min() > 1


def test_points_are_the_figures_of_the_rounds(data):
    frame = PLOTS["accuracy"].frame(data).set_index(["round", "series"])["share"]
    for k in (0, 1):
        assert frame[f"round {k}", "helpful accuracy"] == data.rounds[k].figure("accuracy/helpful").value
    assert frame["base prover", "sneaky accuracy"] == data.rounds[0].figure("base_accuracy/sneaky").value


def test_histograms_add_up_to_one(data):
    frame = PLOTS["scores"].frame(data)
    assert frame.groupby("series")["share"].sum().tolist() == pytest.approx([1.0] * frame["series"].nunique())


def test_times_add_up_to_those_of_the_phases(data):
    assert PLOTS["time"].frame(data)["seconds"].sum() == pytest.approx(sum(data.phase_seconds().values()), rel=0.05)


def test_plots_without_points_are_hidden(data):
    empty = RunData(data.recipe, data.recipe_text, data.environment, [], [])
    columns = update_plots(ROUND_PLOTS, empty)[::3]
    assert not any(column["visible"] if isinstance(column, dict) else column.visible for column in columns)
    assert all(isinstance(plot.frame(empty), pd.DataFrame) for plot in PLOTS.values())


def test_plots_are_drawn_in_the_page(app, open_page):
    page = open_page(f"{app}/rounds", scheme="dark", width=390)
    for name in ("accuracy", "training", "time"):
        expect(page.locator(f"#plot-{name} svg, #plot-{name} canvas").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
