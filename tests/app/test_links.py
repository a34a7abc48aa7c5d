"""Views are restored from their links."""

from dataclasses import replace

import pytest

from pvg_hf.app.index import Filter, Query, SolutionIndex
from pvg_hf.app.links import View, parse_link, read_link, write_link
from pvg_hf.core.roles import Role
from pvg_hf.run.layout import RunFolder


@pytest.fixture(scope="module")
def index(arithmetic_run) -> SolutionIndex:
    return SolutionIndex(RunFolder(arithmetic_run))


@pytest.mark.parametrize(
    "view",
    [
        View(Query(1)),
        View(Query(-1), "p&q=1", {Role.HELPFUL: 0, Role.SNEAKY: 12}),
        View(Query(0, is_test=False, filter=Filter.FOOLED, difficulty="3", search="Ana & <Ben> ünd"), "p", {}),
    ],
)
def test_a_link_leads_back_to_the_view(index, view):
    read = read_link(parse_link(write_link(view)), index)
    assert (read.query, read.problem_id) == (view.query, view.problem_id)
    assert {role: sample for role, sample in read.chosen.items() if sample is not None} == view.chosen


@pytest.mark.parametrize(
    "values",
    [{}, {"round": "7"}, {"round": "1e9"}, {"show": "none", "difficulty": "99", "helpful": "--1"}, {"part": "?"}],
)
def test_settings_missing_from_a_link_default_to_the_last_round(index, values):
    read = read_link(values, index)
    assert read.query == replace(Query(1), filter=read.query.filter)
    assert set(read.chosen.values()) == {None}


def test_a_link_that_asks_for_nothing_leads_to_the_fooled_problems_if_any(index):
    for k in index.rounds:
        fooled = Query(k, filter=Filter.FOOLED)
        expected = fooled if index.find(fooled) else Query(k)
        assert read_link({"round": str(k)}, index).query == expected
        for asked in ({"show": "all"}, {"problem": "p"}, {"search": "x"}):
            assert read_link({"round": str(k), **asked}, index).query.filter is Filter.ALL


def test_the_base_prover_has_no_training_problems(index):
    assert read_link({"round": "-1", "part": "training"}, index).query.is_test
    assert not read_link({"round": "0", "part": "training"}, index).query.is_test
