"""A study of a played run."""

import pytest

from pvg_hf.app.runs import OpenRun
from pvg_hf.experimental.study.legibility import open_study
from tests.support.index_rows import problem_ids, solution_rows


@pytest.fixture
def study(arithmetic_run, tmp_path):
    return open_study(OpenRun(arithmetic_run), tmp_path, num_solutions=6)


def test_the_sheet_holds_solutions_of_the_run(study, arithmetic_run):
    index = OpenRun(arithmetic_run).index()
    sheet = study.sheet("ann")
    assert len(sheet) == 6
    assert sum(item.correct for item in sheet) == 3
    for item in sheet:
        rows = solution_rows(index, item.round_index, item.problem_id)
        same = [row for row in rows if row["solution"].strip() == item.solution and row["role"] == item.role]
        assert {(row["correct"], row["problem"]) for row in same} == {(item.correct, item.problem)}


def test_the_sheet_follows_from_the_run_and_the_participant(study, arithmetic_run, tmp_path):
    again = open_study(OpenRun(arithmetic_run), tmp_path / "again", num_solutions=6)
    assert again.sheet("ann") == study.sheet("ann")
    other = open_study(OpenRun(arithmetic_run), tmp_path / "other", num_solutions=6)
    assert other.sheet("bob") != study.sheet("ann")


def test_only_test_problems_are_judged(study, arithmetic_run):
    index = OpenRun(arithmetic_run).index()
    test = {problem_id for k in index.rounds for problem_id in problem_ids(index, k)}
    assert {item.problem_id for item in study.sheet("ann")} <= test
