"""The index over a run's solutions, compared with the same queries on the whole tables."""

import shutil
from dataclasses import replace

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pvg_hf.app.index import SORTED, Query, SolutionIndex
from pvg_hf.app.runs import OpenRun
from pvg_hf.app.text_scores import ScoreDesk
from pvg_hf.core.roles import Role
from pvg_hf.evaluation.role_figures import has_failed, scored_rows
from pvg_hf.evaluation.verifiers_by_pools import accept_at_completeness
from pvg_hf.report.plots.scores import plot_scores
from pvg_hf.run.layout import RunFolder
from pvg_hf.run.phase_record import seal_phase
from pvg_hf.run.read import load_run
from tests.support.index_rows import problem_ids, solution_rows

ROUNDS = (0, 1)


def whole_table(run, round_index: int, prefix: str = "test-") -> pd.DataFrame:
    files = [RunFolder(run).pool(round_index) / f"{prefix}{role}.parquet" for role in ("helpful", "sneaky")]
    return pd.concat([pd.read_parquet(file) for file in files], ignore_index=True)


def test_index_lists_rounds_difficulties_and_parts(index, arithmetic_run):
    assert index.damage == []
    assert index.rounds == [-1, 0, 1]
    assert index.difficulties == ["2", "3", "4"]
    assert index.has_part(0, is_test=False)
    assert not index.has_part(-1, is_test=False)  # the base prover wrote those without a role
    files = [
        path
        for path in arithmetic_run.glob("pool/*/*.parquet")
        if path.stem.removeprefix("test-") in ("helpful", "sneaky")
    ]
    assert index.num_solutions == sum(pq.read_metadata(path).num_rows for path in files)


def test_filters_select_what_the_pool_says(index, arithmetic_run):
    rows = whole_table(arithmetic_run, 1)
    mistakes = rows[(rows["role"] == "sneaky") & ~rows["correct"].astype(bool)]
    query = Query(1, is_test=True, role=Role.SNEAKY, correct=False)
    found = index.find(query)
    assert len(found) == index.count(query) == len(mistakes) > 0
    assert [one.score for one in found] == sorted(mistakes["score"], reverse=True)
    kind = mistakes["first_flaw_kind"].dropna().iloc[0]
    assert index.count(replace(query, flaw=kind)) == (mistakes["first_flaw_kind"] == kind).sum()
    of_all = whole_table(arithmetic_run, 0).drop_duplicates("problem_id")
    for value in index.difficulties:
        problems = {one.problem_id for one in index.find(Query(0, is_test=True, difficulty=value))}
        assert len(problems) == (of_all["difficulty"] == int(value)).sum()


def test_accepted_is_at_the_completeness_of_the_report(rescored_index, rescored_run):
    """Without scores of other verifiers, each mistake fools its own verifier or none."""
    for k in ROUNDS:
        rows = accept_at_completeness(scored_rows(whole_table(rescored_run, k)))
        accepted = rows[rows["accepted"] > 0]
        assert rescored_index.threshold(k) == accepted["score"].min()
        assert rescored_index.count(Query(k, is_test=True, accepted=True)) == len(accepted) > 0
        assert rescored_index.count(Query(k, is_test=True, accepted=False)) == len(rows) - len(accepted)
        fooled = rescored_index.find(Query(k, is_test=True, fooled=k))
        assert len(fooled) == (~accepted["correct"].astype(bool)).sum()
        assert {one.fooled_by for one in fooled} == {(k,)}


def test_a_mistake_fools_the_verifiers_of_all_rounds_that_accept_it(index, arithmetic_run):
    crossed = pd.read_parquet(RunFolder(arithmetic_run).evaluation(1) / "pool_scores.parquet")
    for (verifier, pool), rows in crossed.groupby(["verifier", "round_index"]):
        rows = accept_at_completeness(scored_rows(rows))
        expected = rows[(rows["accepted"] > 0) & ~rows["correct"].astype(bool)]
        found = index.find(Query(pool, is_test=True, fooled=verifier))
        assert {(one.problem_id, one.role, one.sample_index) for one in found} == set(
            zip(expected["problem_id"], expected["role"], expected["sample_index"])
        )
    problem_id = crossed["problem_id"].iloc[0]
    scores = {
        (row.round_index, row.role, row.sample_index, row.verifier): row.score
        for k in ROUNDS
        for row in pd.read_parquet(RunFolder(arithmetic_run).evaluation(k) / "pool_scores.parquet").itertuples()
        if row.problem_id == problem_id and row.score == row.score
    }
    found = index.crossed_scores(problem_id)
    assert {(*place, verifier): score for place, some in found.items() for verifier, score in some.items()} == scores


def test_solutions_of_the_base_prover_have_the_first_verifiers_scores(index):
    assert len(problem_ids(index, -1)) == 12
    found = index.find(Query(-1, is_test=True))
    crossed = index.crossed_scores(found[0].problem_id)
    assert found[0].score == crossed[-1, found[0].role, found[0].sample_index][0]


@pytest.mark.parametrize("name", SORTED)
def test_every_order_is_complete_and_missing_values_come_last(index, name):
    for is_descending in (True, False):
        found = index.find(Query(sort=name, is_descending=is_descending))
        assert len({one.key for one in found}) == index.num_solutions
        in_pages = [
            one
            for start in range(0, len(found), 100)
            for one in index.find(Query(sort=name, is_descending=is_descending), start, 100)
        ]
        assert in_pages == found
    scores = [one.score for one in index.find(Query(sort="score", is_descending=False)) if one.score is not None]
    assert scores == sorted(scores)


def test_search_finds_problems_ids_and_solutions(index, arithmetic_run):
    rows = whole_table(arithmetic_run, 0)
    word = rows["problem"].iloc[0].split()[0]
    has_word = rows["problem"].str.contains(word) | rows["solution"].str.lower().str.contains(word.lower())
    assert index.count(Query(0, is_test=True, search=word.upper())) == has_word.sum()
    text = rows["solution"].iloc[5]
    found = index.find(Query(0, is_test=True, search=text))
    assert rows["sample_index"].iloc[5] in {one.sample_index for one in found}
    assert {one.problem_id for one in index.find(Query(0, search=rows["problem_id"].iloc[3]))} == {
        rows["problem_id"].iloc[3]
    }
    for sql in ("'; DROP TABLE solutions; --", "%", "_!"):
        assert index.find(Query(0, search=sql)) == []


def test_a_key_names_a_solution(index):
    for one in index.find(Query(), 0, 40):
        assert index.find_key(one.key) == one
    for key in ("", "1", "1ts", "9ts0", "1ts999999", "1ts0; DROP", "bth99999999999999"):
        assert index.find_key(key) is None


@pytest.mark.parametrize(("is_test", "prefix"), [(True, "test-"), (False, "")])
def test_a_problems_solutions_are_the_pools_rows(index, arithmetic_run, is_test, prefix):
    table = whole_table(arithmetic_run, 1, prefix)
    problem_id = table["problem_id"].iloc[-1]
    found = solution_rows(index, 1, problem_id, is_test=is_test)
    expected = table[table["problem_id"] == problem_id].sort_values(["role", "score"], ascending=[True, False])
    assert found == expected.astype(object).where(expected.notna(), None).to_dict("records")


def test_scores_are_those_of_judged_solutions(index, arithmetic_run):
    rows = scored_rows(whole_table(arithmetic_run, 0))
    found = index.scores(0)
    for kind in (True, False):
        assert list(found[kind]) == sorted(rows.loc[rows["correct"] == kind, "score"])
    assert index.scores(0) is found  # read once: a page shows them with every problem
    assert len(index.scores(0, is_test=False)[True]) != len(found[True])


def test_test_solutions_can_be_read_again_by_their_place(index, arithmetic_run):
    found = index.test_solutions()
    tables = pd.concat([whole_table(arithmetic_run, k) for k in (-1, *ROUNDS)])
    assert len(found) == (~has_failed(tables)).sum()
    chosen = found.iloc[[5, 0, 17]]
    rows = index.read(list(chosen["place"]))
    for name in ("problem_id", "role", "round_index", "correct"):
        assert [row[name] for row in rows] == list(chosen[name])


def test_a_damaged_file_is_named_and_the_others_are_shown(run_copy):
    file = run_copy / "pool" / "round-001" / "test-sneaky.parquet"
    file.write_bytes(file.read_bytes()[:200])
    index = SolutionIndex(RunFolder(run_copy))
    (pool,) = index.damage
    assert str(file) in pool
    assert f"Delete the folder {file.parent}" in pool
    assert {row["role"] for row in solution_rows(index, 1, problem_ids(index, 1)[0])} == {"helpful"}


def test_copies_of_a_rounds_folders_are_ignored(run_copy):
    for name in ("pool", "verifier", "evaluation", "prover"):
        shutil.copytree(run_copy / name / "round-000", run_copy / name / "round-000.bak")
    run = OpenRun(run_copy)
    assert (run.index().rounds, run.index().damage) == ([-1, 0, 1], [])
    assert ScoreDesk(run).rounds() == [0, 1]
    assert [data.round_index for data in run.data().rounds] == [0, 1]
    assert run.folder.player("verifier") == run_copy / "verifier" / "round-001"


def test_a_run_without_solutions_has_an_empty_index(tmp_path):
    index = SolutionIndex(RunFolder(tmp_path))
    assert (index.rounds, index.num_solutions, index.damage) == ([], 0, [])
    assert index.find(Query(search="x")) == []


def test_the_threshold_is_the_line_in_the_reports_histogram(rescored_index, rescored_run):
    run = load_run(rescored_run)
    canvas = plot_scores(run).canvas
    for data, axes in zip(run.rounds, canvas.axes, strict=False):  # the first row of panels
        assert axes.get_lines()[0].get_xdata()[0] == rescored_index.threshold(data.round_index)


def test_a_score_that_is_not_a_number_is_not_accepted(rescored_run, tmp_path):
    folder = RunFolder(shutil.copytree(rescored_run, tmp_path / "small"))
    file = folder.pool(1) / "test-sneaky.parquet"
    rows = pd.read_parquet(file)
    mistake = rows.index[~rows["correct"].astype(bool) & ~has_failed(rows)][0]
    rows.loc[mistake, "score"] = float("nan")
    table = pa.Table.from_pandas(rows, preserve_index=False)
    scores = pa.array(rows["score"].to_numpy(), from_pandas=False)  # NaN stays NaN, and is not null
    pq.write_table(table.set_column(table.column_names.index("score"), "score", scores), file)
    seal_phase(folder.pool(1))
    problem_id, sample_index = rows.loc[mistake, ["problem_id", "sample_index"]]
    found = SolutionIndex(folder).find(Query(1, is_test=True, role=Role.SNEAKY, problem_id=problem_id))
    shown = next(one for one in found if one.sample_index == sample_index)
    assert (shown.score, shown.accepted, shown.fooled_by) == (None, None, ())
