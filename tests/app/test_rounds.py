"""Figures of rounds, and their comparison with another run's."""

import pytest

from pvg_hf.app.rounds_page import comparison_table, figures_frame, solutions_of
from pvg_hf.app.runs import OpenRun
from pvg_hf.evaluation.comparison import compare_rounds


@pytest.fixture(scope="module")
def data(arithmetic_run):
    return OpenRun(arithmetic_run).data()


def test_the_file_has_every_figure(data):
    table = figures_frame(data)
    assert len(table) == sum(len(found.figures) for found in data.evaluated)
    row = table.set_index(["round_index", "figure"]).loc[1, "accuracy/helpful"]
    assert data.rounds[1].figure("accuracy/helpful").to_dict() == pytest.approx(row.to_dict())


def test_a_comparison_as_a_table(data):
    compared = compare_rounds(data.rounds[1], data.rounds[0])
    table = comparison_table(compared, "mine", "yours")
    assert table.headers == ["", "mine", "yours", "difference", "shared problems"]
    heading, cells = table.rows[0]
    assert heading == "helpful accuracy"
    difference = data.rounds[1].figure("accuracy/helpful").value - data.rounds[0].figure("accuracy/helpful").value
    assert cells[2].value == f"{difference:+.3f}"
    assert cells[3].value == "12"


def test_an_unevaluated_round_is_left_out(data):
    assert solutions_of(data, 1).round_index == 1
    assert solutions_of(data, 2) is None
