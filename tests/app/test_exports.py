"""Selected solutions as files for other programs."""

import json
from dataclasses import replace

import pytest

from pvg_hf.app.index import Query
from pvg_hf.app.links import View
from pvg_hf.app.pairs_export import FORMATS, MAX_ROWS, write_export
from pvg_hf.app.runs import OpenRun
from pvg_hf.core.roles import Outcome, Role
from tests.support.index_rows import problem_ids


def exported(index, view: View, kind: str, folder) -> list[dict]:
    path, number = write_export(index, view, kind, folder)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) == number
    return rows


def test_selected_rows_are_exported_as_they_are(index, tmp_path):
    first, _, third = index.find(Query(1, is_test=True), 0, 3)
    rows = exported(index, View(Query(0), selected=(third.key, "unknown", first.key)), "JSONL", tmp_path)
    assert [row["key"] for row in rows] == [third.key, first.key]
    assert rows[1]["solution"] == index.read([first.place])[0]["solution"]
    assert (rows[1]["accepted"], rows[1]["fooled_by"]) == (first.accepted, list(first.fooled_by))


def test_labels_and_notes_of_people_are_exported(run_copy, tmp_path):
    run = OpenRun(run_copy)
    first, second = run.index().find(Query(1, is_test=True), 0, 2)
    run.annotate(first.key, score=0.5, note=" half of it ")
    rows = exported(run.index(), View(Query(1), selected=(first.key, second.key)), "JSONL", tmp_path)
    assert [(row["person_score"], row["note"]) for row in rows] == [(0.5, "half of it"), (None, None)]


def test_two_visitors_who_export_at_once_get_their_own_files(index, tmp_path):
    first, second = index.find(Query(1, is_test=True), 0, 2)
    paths = [write_export(index, View(Query(1), selected=(one.key,)), "JSONL", tmp_path)[0] for one in (first, second)]
    assert [json.loads(path.read_text())["key"] for path in paths] == [first.key, second.key]
    assert {path.name for path in paths} == {"solutions-jsonl.jsonl"}


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("DPO pairs", {"prompt", "chosen", "rejected"}),
        ("SFT pairs", {"prompt", "completion"}),
        ("KTO", {"prompt", "completion", "label"}),
    ],
)
def test_formats_have_the_columns_that_trl_expects(index, tmp_path, kind, columns):
    rows = exported(index, View(Query(1, is_test=True)), kind, tmp_path)
    assert {frozenset(row) for row in rows} == {frozenset(columns)}


def test_dpo_pairs_a_correct_with_an_incorrect_solution_to_the_same_problem(index, tmp_path):
    listed = [one for one in index.find(Query(1, is_test=True)) if not one.has_failed]
    texts = dict(zip((one.key for one in listed), index.read([one.place for one in listed])))
    truth = {(texts[one.key]["problem"], texts[one.key]["solution"]): one.correct for one in listed}
    rows = exported(index, View(Query(1, is_test=True)), "DPO pairs", tmp_path)
    for row in rows:
        assert truth[row["prompt"], row["chosen"]]
        assert not truth[row["prompt"], row["rejected"]]
    sides = {name: [one.correct for one in listed if one.problem_id == name] for name in problem_ids(index, 1)}
    assert len(rows) == sum(min(some.count(True), some.count(False)) for some in sides.values())


def test_kto_labels_what_did_not_fail_and_sft_has_the_correct_ones(index, tmp_path):
    view, listed = View(Query(1, is_test=True)), index.find(Query(1, is_test=True))
    labels = [row["label"] for row in exported(index, view, "KTO", tmp_path)]
    assert labels == [one.correct for one in listed if not one.has_failed]
    assert len(exported(index, view, "SFT pairs", tmp_path)) == sum(one.correct for one in listed)


def test_a_persons_label_takes_the_place_of_the_grade(run_copy, tmp_path):
    run, view = OpenRun(run_copy), View(Query(1, is_test=True))
    wrong, other = [one for one in run.index().find(view.query) if not (one.correct or one.has_failed)][:2]
    before = exported(run.index(), view, "SFT pairs", tmp_path)
    run.annotate(wrong.key, score=1.0, note="")
    run.annotate(other.key, score=0.5, note="")
    (row,) = run.index().read([wrong.place])
    added = {"prompt": row["problem"], "completion": row["solution"]}
    assert added in exported(run.index(), view, "SFT pairs", tmp_path)
    assert len(exported(run.index(), view, "SFT pairs", tmp_path)) == len(before) + 1
    labels = exported(run.index(), view, "KTO", tmp_path)
    assert {**added, "label": True} in labels
    assert len(labels) == sum(not one.has_failed for one in run.index().find(view.query)) - 1


def test_a_label_does_not_make_an_example_of_a_solution_that_was_cut(index):
    one = index.find(Query(1, is_test=True), 0, 1)[0]
    rows = index.read([one.place])
    for outcome, number in ((Outcome.VERIFIED, 1), (Outcome.TRUNCATED, 0)):
        labelled = replace(one, outcome=outcome, person_score=1.0)
        assert len(list(FORMATS["SFT pairs"]([labelled], rows))) == number


def test_unknown_keys_export_nothing(index, tmp_path):
    with pytest.raises(ValueError, match="None of the 1 selected"):
        write_export(index, View(Query(1), selected=("nope",)), "JSONL", tmp_path)


@pytest.mark.parametrize("kind", ["SFT pairs", "DPO pairs"])
def test_nothing_to_export_is_an_error(index, tmp_path, kind):
    with pytest.raises(ValueError, match=kind):
        write_export(index, View(Query(1, role=Role.SNEAKY, correct=False)), kind, tmp_path)
    assert list(FORMATS) == ["JSONL", "DPO pairs", "SFT pairs", "KTO"]
    assert index.num_solutions < MAX_ROWS
