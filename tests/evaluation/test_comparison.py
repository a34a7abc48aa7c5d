"""Two rounds side by side."""

import dataclasses

import pytest

from pvg_hf.evaluation.comparison import compare_rounds
from pvg_hf.run.read import load_run


@pytest.fixture(scope="module")
def rounds(run_template):
    return load_run(run_template(2)).evaluated


def compared(ours, theirs):
    return {figure.name: figure for figure in compare_rounds(ours, theirs)}


def test_the_differences_are_those_of_the_rounds_own_figures(rounds):
    ours, theirs = rounds[1], rounds[0]
    found = compared(ours, theirs)
    assert len(found) == 8
    for name, figure in found.items():
        assert (figure.ours, figure.theirs) == (ours.figure(name), theirs.figure(name))
        assert figure.difference.value == pytest.approx(figure.ours.value - figure.theirs.value)
        assert figure.difference.low < figure.difference.value < figure.difference.high


def test_equal_rounds_do_not_differ(rounds):
    for figure in compared(rounds[0], rounds[0]).values():
        assert figure.difference.value == 0
        assert figure.num_shared <= 60


def test_shared_problems_make_the_interval_narrower(rounds):
    ours, theirs = rounds[1], rounds[0]
    strangers = theirs.solutions.assign(problem_id="other-" + theirs.solutions["problem_id"])
    paired, unpaired = (
        compared(ours, side)["accuracy/helpful"] for side in (ours, dataclasses.replace(ours, solutions=strangers))
    )
    assert (paired.num_shared, unpaired.num_shared) == (60, 0)
    widths = [figure.difference.high - figure.difference.low for figure in (paired, unpaired)]
    assert widths[0] < widths[1]


def test_a_figure_that_a_round_lacks_is_left_out(rounds):
    without = {name: figure for name, figure in rounds[0].figures.items() if name != "soundness"}
    found = compared(dataclasses.replace(rounds[0], figures=without), rounds[1])
    assert "soundness" not in found
    assert "completeness" in found
