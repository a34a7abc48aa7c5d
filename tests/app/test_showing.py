"""Pairs and strips of solutions as a page shows them."""

import pandas as pd
import pytest

from pvg_hf.app.index import Query, SolutionIndex
from pvg_hf.app.showing import ShownSolution, mark_differences, percentile, show_every_round, show_pair, with_steps
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.report.escaping import Line, show_preformatted
from pvg_hf.run.layout import RunFolder
from tests.support.game_runs import forget_digests
from tests.support.index_rows import problem_ids


def test_a_mistake_is_beside_the_most_convincing_correct_solution_of_the_helpful_role(index):
    for opened in index.find(Query(1, is_test=True, role=Role.SNEAKY), 0, 20):
        pair = show_pair(index, opened)
        assert pair.solutions[Role.SNEAKY].listed == opened
        correct = [one for one in pair.choices[Role.HELPFUL] if one.correct and one.accepted is not None]
        shown = pair.solutions[Role.HELPFUL].listed
        assert shown == (correct or pair.choices[Role.HELPFUL])[0]
        for one in pair.choices[Role.HELPFUL]:
            assert show_pair(index, opened, one.key).solutions[Role.HELPFUL].listed == one


@pytest.mark.parametrize("key", [None, "", "nothing", "bth0"])
def test_an_unknown_or_unfitting_other_solution_is_ignored(index, key):
    opened = index.find(Query(1, is_test=True), 0, 1)[0]
    assert show_pair(index, opened, key) == show_pair(index, opened)


def test_the_first_flaw_is_marked(index):
    for opened in index.find(Query(1, is_test=True, role=Role.SNEAKY)):
        (row,) = index.read([opened.place])
        lines = show_pair(index, opened).solutions[Role.SNEAKY].lines
        marked = [place for place, line in enumerate(lines) if line.note]
        assert marked == ([] if row["first_flaw_step"] is None else [row["first_flaw_step"]])


def marked_words(lines: list[Line]) -> list[list[str]]:
    return [[line.text[start:stop] for start, stop in line.spans] for line in lines]


def test_words_that_differ_are_marked():
    first, second = mark_differences(
        [Line("Ana has 3 + 4 = 7"), Line("#### 7")], [Line("Ana has 3 + 5 = 7"), Line("so", "flaw"), Line("#### 8")]
    )
    assert marked_words(first) == [["4"], ["7"]]
    assert marked_words(second) == [["5"], ["so"], ["8"]]
    assert second[1].note == "flaw"
    assert "3 + <u>4</u> = 7" in show_preformatted(first)
    equal = mark_differences(first, first)
    assert marked_words(equal[0]) == [[], []]
    long = [Line("a b " * 10_000)]
    assert mark_differences(long, second) == (long, second)


def test_marked_words_are_escaped():
    line = Line("<b>1</b> \u202e", spans=((0, 3), (4, 8)), so_far='"+0.1')
    assert "<u>&lt;b&gt;</u>1<u>&lt;/b&gt;</u> " in show_preformatted([line])
    assert 'data-score="&#34;+0.1"' in show_preformatted([line])
    assert "U+202E" in show_preformatted([line])


@pytest.mark.parametrize(
    ("scores", "believed_from"), [([-1, 2, 3], 2), ([1, -1, 3], 3), ([1, 2, 3], 0), ([1, 2, -3], None)]
)
def test_steps_have_the_score_of_the_text_so_far(index, scores, believed_from):
    listed = index.find(Query(), 0, 1)[0]
    solution = ShownSolution(listed, [Line("a"), Line(""), Line("b"), Line("c")], "3", None, True)
    shown = with_steps(solution, scores, [score >= 0 for score in scores])
    assert [line.so_far for line in shown.lines] == [f"{scores[0]:+.2f}", "", f"{scores[1]:+.2f}", f"{scores[2]:+.2f}"]
    assert shown.believed_from == believed_from
    assert with_steps(solution, scores, [None] * 3).believed_from is None


def test_a_problem_in_every_round_has_the_scores_of_all_verifiers(index):
    problem_id = problem_ids(index, 1)[0]
    shown = show_every_round(index, problem_id)
    assert [one.round_index for one in shown] == [-1, 0, 1]
    for one in shown:
        assert set(one.solutions) == set(GAME_ROLES)
        for role, solution in one.solutions.items():
            own = one.scores[role][max(one.round_index, 0)]
            assert own == (solution.listed.score, solution.listed.accepted)
    assert set(shown[1].scores[Role.SNEAKY]) == {0, 1}


def test_solutions_without_scores_are_shown(run_copy):
    for file in run_copy.glob("pool/*/*.parquet"):
        pd.read_parquet(file).assign(score=None).astype({"score": "float64"}).to_parquet(file)
    for file in run_copy.glob("evaluation/*/pool_scores.parquet"):
        file.unlink()
    forget_digests(run_copy)
    index = SolutionIndex(RunFolder(run_copy))
    opened = index.find(Query(1, is_test=True), 0, 1)[0]
    shown = show_pair(index, opened).solutions[opened.role]
    assert (shown.listed.score, shown.percentile, shown.listed.accepted, index.verifiers) == (None, None, None, [])


def test_a_percentile_counts_both_kinds_of_solutions():
    assert percentile(2.0, pd.Series([1.0, 2.0]).to_numpy(), pd.Series([0.0, 3.0]).to_numpy()) == 50.0
    assert percentile(None, pd.Series([1.0]).to_numpy()) is None
    assert percentile(1.0) is None
