"""Tables of a sweep with figures worked by hand."""

import pytest

from pvg_hf import load_recipe
from pvg_hf.experimental.sweep.cells import Cell
from pvg_hf.experimental.sweep.level_plots import plot_sweep
from pvg_hf.experimental.sweep.measures import MEASURES
from pvg_hf.experimental.sweep.result_tables import breakdown_table, cell_table, fit_table, summarize

LOSSES = {0: [0.2, 0.3, 0.5], 1: [0.3, 0.4, 1.5]}  # by seed, at the levels 0, .2 and .4


@pytest.fixture
def recipe(make_sweep, tmp_path):
    sweep = {"levels": [0, 0.2, 0.4], "seeds": [0, 1], "corrections": ["none"]}
    return load_recipe(make_sweep(tmp_path, sweep=sweep))


@pytest.fixture
def table(recipe):
    def figures(level: float, loss: float) -> dict:
        values = {"pair_accuracy": 0.9 - level, "clean_loss": loss, "parameter_distance": level}
        return {name: {"value": value, "low": None, "high": None} for name, value in values.items()}

    results = {
        Cell(seed, level, "none"): {"figures": figures(level, loss)}
        for seed, losses in LOSSES.items()
        for level, loss in zip([0, 0.2, 0.4], losses)
    }
    return cell_table(recipe, results)


def test_a_loss_breaks_down_upwards(table):
    # Of a verifier that scores all alike it is log 2 = .69315, so that the bounds are .44657 and .49657, and .47157 of
    # the mean .25, .35, 1. Seed 0 is there at .2 + .2 (.14657 / .2), seed 1 at .2 + .2 (.09657 / 1.1), the mean at .2
    # + .2 (.12157 / .65). At .2 both seeds' losses are .1 higher.
    breakdowns = breakdown_table(table).set_index("measure")
    loss = breakdowns.loc["clean_loss"]
    assert (loss.level, loss.lowest, loss.highest) == pytest.approx((0.23741, 0.21756, 0.34657), abs=1e-5)
    assert (loss.num_seeds, loss.num_broken, loss.told_from) == (2, 2, 0.2)
    assert breakdowns.loc["pair_accuracy"].level == pytest.approx(0.2)  # .9 - .2 is half way to .5


def test_measures_without_a_breakdown_level_give_the_reason(recipe, table):
    assert all((measure.floor is None) == bool(measure.why_no_floor) for measure in MEASURES.values())
    breakdowns = breakdown_table(table)
    assert set(breakdowns["measure"]) == {"pair_accuracy", "clean_loss"}
    summary = summarize(recipe, table, fit_table(table), breakdowns)
    assert "\n- No level of parameter distance (share of the norm): it is 0 by definition when clean" in summary
    assert "No level of prover success" not in summary  # which only whole games have


def test_only_shares_are_drawn_between_0_and_1(table):
    levels, _ = plot_sweep("epsilon", table)
    highest = {axes.get_title(): axes.get_ylim()[1] for axes in levels.canvas.axes}
    assert highest["clean pair accuracy"] <= 1.02
    assert highest["clean loss (nats a pair)"] > 1.5
