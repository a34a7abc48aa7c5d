"""The index over a run's solutions, compared with the same queries on the whole tables."""

import shutil

import pandas as pd
import pyarrow.parquet as pq
import pytest

from pvg_hf.app.index import Filter, Query, SolutionIndex
from pvg_hf.app.runs import OpenRun
from pvg_hf.app.text_scores import ScoreDesk
from pvg_hf.core.integrity import replay_advice
from pvg_hf.evaluation.role_figures import has_failed, scored_rows
from pvg_hf.run.layout import RunFolder
from tests.support.game_runs import forget_digests

ROUNDS = (0, 1)


def whole_table(run, round_index: int, prefix: str = "test-") -> pd.DataFrame:
    files = [RunFolder(run).pool(round_index) / f"{prefix}{role}.parquet" for role in ("helpful", "sneaky")]
    return pd.concat([pd.read_parquet(file) for file in files], ignore_index=True)


def best_scores(run, round_index: int) -> pd.DataFrame:
    """Return by problem the best helpful correct, the worst helpful correct and the best sneaky incorrect score."""
    rows = scored_rows(whole_table(run, round_index))
    correct = rows["correct"].astype(bool)
    right = rows[correct & (rows["role"] == "helpful")].groupby("problem_id")["score"]
    wrong = rows[~correct & (rows["role"] == "sneaky")].groupby("problem_id")["score"]
    return pd.DataFrame({"best_helpful": right.max(), "worst_helpful": right.min(), "best_sneaky": wrong.max()})


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


@pytest.mark.parametrize("round_index", ROUNDS)
def test_fooled_is_what_the_report_calls_fooled(rescored_index, rescored_run, round_index):
    table = pd.read_parquet(RunFolder(rescored_run).evaluation(round_index) / "problems.parquet")
    known = table[table["fooled"].notna()]
    for asked, fooled in ((Filter.FOOLED, True), (Filter.CAUGHT, False)):
        expected = set(known.loc[known["fooled"].astype(bool) == fooled, "problem_id"])
        assert expected
        assert set(rescored_index.find(Query(round_index, filter=asked))) == expected


@pytest.mark.parametrize("round_index", ROUNDS)
def test_filters_by_the_threshold(rescored_index, rescored_run, round_index):
    scores, threshold = best_scores(rescored_run, round_index), rescored_index.threshold(round_index)
    accepted = scores.index[scores["best_sneaky"] > threshold]
    rejected = scores.index[scores["worst_helpful"] <= threshold]
    found = rescored_index.find(Query(round_index, filter=Filter.SNEAKY_ACCEPTED))
    assert len(found) > 2
    assert set(found) == set(accepted)
    assert scores.loc[found, "best_sneaky"].is_monotonic_decreasing
    found = rescored_index.find(Query(round_index, filter=Filter.HELPFUL_REJECTED))
    assert set(found) == set(rejected)
    assert scores.loc[found, "worst_helpful"].is_monotonic_increasing


def test_the_base_prover_has_no_verifier_to_fool(index):
    assert len(index.find(Query(-1))) == 12
    assert index.threshold(-1) is None
    for asked in set(Filter) - {Filter.ALL}:
        assert index.find(Query(-1, filter=asked)) == []


def test_search_and_difficulty(index, arithmetic_run):
    problems = whole_table(arithmetic_run, 0).drop_duplicates("problem_id").set_index("problem_id")
    word = problems["problem"].iloc[0].split()[0]
    expected = problems.index[problems["problem"].str.contains(word)]
    assert set(index.find(Query(0, search=word.upper()))) == set(expected)
    assert index.find(Query(0, search=problems.index[3])) == [problems.index[3]]
    for sql in ("'; DROP TABLE solutions; --", "%", "_"):
        assert index.find(Query(0, search=sql)) == []
    by_difficulty = {value: index.find(Query(0, difficulty=value)) for value in index.difficulties}
    assert {value: len(found) for value, found in by_difficulty.items()} == {
        str(value): number for value, number in problems["difficulty"].value_counts().items()
    }


@pytest.mark.parametrize(("is_test", "prefix"), [(True, "test-"), (False, "")])
def test_a_problems_solutions_are_the_pools_rows(index, arithmetic_run, is_test, prefix):
    table = whole_table(arithmetic_run, 1, prefix)
    problem_id = table["problem_id"].iloc[-1]
    found = index.solutions(1, problem_id, is_test=is_test)
    expected = table[table["problem_id"] == problem_id].sort_values(["role", "score"], ascending=[True, False])
    assert found == expected.astype(object).where(expected.notna(), None).to_dict("records")


def test_scores_are_those_of_judged_solutions(index, arithmetic_run):
    rows = scored_rows(whole_table(arithmetic_run, 0))
    found = index.scores(0)
    for kind in (True, False):
        assert list(found[kind]) == sorted(rows.loc[rows["correct"] == kind, "score"])
    assert index.scores(0) is found  # read once: a page shows them with every problem
    assert len(index.scores(0, is_test=False)[True]) != len(found[True])
    assert [len(some) for some in index.scores(-1).values()] == [0, 0]


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
    (run_copy / "verifier" / "round-000" / "calibration.json").write_text("{")
    index = SolutionIndex(RunFolder(run_copy))
    pool, calibration = index.damage
    assert str(file) in pool
    assert f"Delete the folder {file.parent}" in pool
    assert "calibration.json is damaged" in calibration
    assert {row["role"] for row in index.solutions(1, index.find(Query(1))[0])} == {"helpful"}
    assert index.threshold(0) is None
    assert index.find(Query(0, filter=Filter.SNEAKY_ACCEPTED)) == []


@pytest.mark.parametrize("text", ["{}", "[0.5]", '{"threshold": null}'])
def test_a_calibration_without_a_threshold_is_named(run_copy, text):
    file = run_copy / "verifier" / "round-000" / "calibration.json"
    file.write_text(text)
    forget_digests(run_copy)
    index = SolutionIndex(RunFolder(run_copy))
    assert index.damage == [f"{file} holds no number as its `threshold`. {replay_advice(file.parent)}"]
    assert (index.threshold(0), index.rounds) == (None, [-1, 0, 1])


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
