"""Figures of rounds as a file."""

import pytest

from pvg_hf.app.rounds_page import figures_frame
from pvg_hf.app.runs import OpenRun


@pytest.fixture(scope="module")
def data(arithmetic_run):
    return OpenRun(arithmetic_run).data()


def test_the_file_has_every_figure(data):
    table = figures_frame(data)
    assert len(table) == sum(len(found.figures) for found in data.evaluated)
    row = table.set_index(["round_index", "figure"]).loc[1, "accuracy/helpful"]
    assert data.rounds[1].figure("accuracy/helpful").to_dict() == pytest.approx(row.to_dict())
