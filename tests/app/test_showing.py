"""A problem as a page shows it."""

import numpy as np
import pandas as pd
import pytest

from pvg_hf.app.index import Filter, Query, SolutionIndex
from pvg_hf.app.showing import show_problem
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.data.schema import FAILED_OUTCOMES
from pvg_hf.run.layout import RunFolder
from tests.support.game_runs import forget_digests


def test_hidden_details_are_absent_from_the_page(index):
    shown = show_problem(index, Query(1), index.find(Query(1))[0])
    assert shown.reference is None
    for solution in shown.solutions.values():
        assert solution.verdict is None
        assert all(line.note is None for line in solution.lines)


def test_revealing_shows_correctness_and_the_first_flaw(index):
    for problem_id in index.find(Query(1)):
        rows = {(row["role"], row["sample_index"]): row for row in index.solutions(1, problem_id)}
        shown = show_problem(index, Query(1), problem_id, is_revealed=True)
        for role, solution in shown.solutions.items():
            row = rows[role.value, solution.sample_index]
            assert (solution.verdict.correct, solution.verdict.answer) == (row["correct"], row["answer"])
            marked = [place for place, line in enumerate(solution.lines) if line.note]
            assert marked == ([] if row["first_flaw_step"] is None else [row["first_flaw_step"]])
        assert shown.reference == rows[role.value, solution.sample_index]["reference"]


def test_the_most_convincing_solution_is_shown_first_and_any_other_can_be_chosen(index):
    problem_id = index.find(Query(0))[0]
    shown = show_problem(index, Query(0), problem_id)
    for role in GAME_ROLES:
        samples, scores = zip(*shown.choices[role])
        assert list(scores) == sorted(scores, reverse=True)
        assert shown.solutions[role].sample_index == samples[0]
        other = show_problem(index, Query(0), problem_id, {role: samples[-1]})
        assert other.solutions[role].sample_index == samples[-1]
        assert other.solutions[role].score == scores[-1]


@pytest.mark.parametrize("asked", [Filter.FOOLED, Filter.CAUGHT, Filter.SNEAKY_ACCEPTED, Filter.HELPFUL_REJECTED])
def test_a_filter_selects_matching_solutions_to_show(rescored_index, asked):
    found = [(k, problem_id) for k in (0, 1) for problem_id in rescored_index.find(Query(k, filter=asked))]
    assert found
    for k, problem_id in found:
        shown = show_problem(rescored_index, Query(k, filter=asked), problem_id, is_revealed=True).solutions
        if asked is not Filter.HELPFUL_REJECTED:
            assert not shown[Role.SNEAKY].verdict.correct
        if asked is not Filter.SNEAKY_ACCEPTED:
            assert shown[Role.HELPFUL].verdict.correct
        if asked in (Filter.FOOLED, Filter.CAUGHT):
            assert (shown[Role.SNEAKY].score > shown[Role.HELPFUL].score) == (asked is Filter.FOOLED)
        if asked is Filter.SNEAKY_ACCEPTED:
            assert shown[Role.SNEAKY].is_accepted
        if asked is Filter.HELPFUL_REJECTED:
            assert not shown[Role.HELPFUL].is_accepted


@pytest.mark.parametrize("outcome", sorted(FAILED_OUTCOMES))
def test_a_filter_ignores_failed_solutions(run_copy, outcome):
    """Each text without an answer is its problem's most convincing incorrect one, but not a valid mistake."""
    folder = RunFolder(run_copy)
    file = folder.pool(1) / "test-sneaky.parquet"
    rows = pd.read_parquet(file)
    rows["correct"], rows["outcome"] = False, "PROOF_INVALID"
    failed = rows["sample_index"] == 0
    rows.loc[failed, "outcome"] = outcome
    rows.assign(score=np.where(failed, 100.0, -100.0)).to_parquet(file)
    forget_digests(run_copy)
    index = SolutionIndex(folder)
    query = Query(1, filter=Filter.CAUGHT)
    found = index.find(query)
    assert found
    for problem_id in found:
        sneaky = show_problem(index, query, problem_id).solutions[Role.SNEAKY]
        assert (sneaky.sample_index != 0, sneaky.score) == (True, -100.0)


def test_the_percentile_counts_what_scores_below(index):
    scores = np.concatenate(list(index.scores(0).values()))
    shown = show_problem(index, Query(0), index.find(Query(0))[0]).solutions[Role.HELPFUL]
    assert shown.percentile == pytest.approx(100 * (scores < shown.score).mean())


def test_the_base_prover_has_no_scores(index):
    shown = show_problem(index, Query(-1), index.find(Query(-1))[0])
    assert {solution.score for solution in shown.solutions.values()} == {None}
    assert {solution.is_accepted for solution in shown.solutions.values()} == {None}
