"""Opening a run, and the error if there is none."""

import json
import os
import shutil

import pytest

from pvg_hf.app.index import LABELLED, Query
from pvg_hf.app.runs import OpenRun, open_run, sibling_runs
from pvg_hf.core.disk_names import ANNOTATIONS


def test_a_run_is_read_again_when_it_has_grown(run_copy):
    shutil.move(run_copy / "pool" / "round-001", run_copy.parent / "later")
    run = open_run(run_copy)
    index = run.index()
    assert index.rounds == [-1, 0]
    assert run.index() is index
    assert [data.solutions is None for data in run.data().rounds] == [False, True]
    shutil.move(run_copy.parent / "later", run_copy / "pool" / "round-001")
    assert run.index().rounds == [-1, 0, 1]
    assert [data.solutions is None for data in run.data().rounds] == [False, False]


def test_texts_are_not_read_for_the_figures(arithmetic_run):
    assert "solution" not in OpenRun(arithmetic_run).data().rounds[0].solutions


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda root: None, "runs/mine does not exist. Play one first: `pvg play demo`"),
        (
            lambda root: root.mkdir(parents=True),
            "runs/mine is not a run's folder: it has no recipe.yaml. Play one first",
        ),
    ],
    ids=["missing folder", "folder without a recipe"],
)
def test_a_missing_run_is_an_error(tmp_path, monkeypatch, make, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    make(tmp_path / "runs" / "mine")
    with pytest.raises(ValueError) as caught:
        open_run("runs/mine")
    assert message in str(caught.value)


def test_the_error_for_a_missing_run_lists_the_existing_ones(run_copy):
    with pytest.raises(ValueError, match=r"does not exist.*runs/small\."):
        open_run(run_copy.parent / "smal")
    with pytest.raises(ValueError, match=r"recipe\.yaml.*runs/small\."):
        open_run(run_copy.parent)


def test_a_damaged_recipe_is_an_error(run_copy):
    (run_copy / "recipe.yaml").write_text("num_rounds: many\n")
    with pytest.raises(ValueError, match="Restore the recipe"):
        open_run(run_copy)


def test_sibling_runs_are_found(run_copy):
    shutil.copytree(run_copy, run_copy.parent / "other")
    os.mkdir(run_copy.parent / "no-run")
    assert sibling_runs(run_copy) == {"other": run_copy.parent / "other"}


def test_a_label_is_kept_with_the_run_and_found_by_it(run_copy):
    run = OpenRun(run_copy)
    first, second, third = run.index().find(Query(1, is_test=True), 0, 3)
    assert "label" not in run.index().columns
    assert run.annotate(first.key, score=1.0).endswith("Games do not learn from it: it is a test problem.")
    assert run.annotate(second.key, note="Look again").startswith("The note is kept")
    assert run.annotate(second.key, note=" Look again ") == ""  # nothing changed
    again = OpenRun(run_copy).index()  # it is on the disk
    for index in (run.index(), again):
        assert index.find_key(first.key).person_score == 1.0
        counts = {name: index.count(Query(label=name)) for name in LABELLED}
        assert counts == {"given": 2, "correct": 1, "partly": 0, "incorrect": 0, "none": index.num_solutions - 2}
        assert [one.key for one in index.find(Query(1, is_test=True, sort="label"), 0, 2)] == [first.key, second.key]
        assert [one.key for one in index.find(Query(search="look AGAIN"))] == [second.key]
        assert index.find_key(third.key).note is None
        assert "label" in index.columns
    assert "taken back" in run.annotate(first.key, score=None)
    assert run.index().count(Query(label="given")) == 1


def test_a_label_and_a_note_do_not_undo_each_other(run_copy):
    """Covers two visitors who have not seen each other's entries."""
    run = OpenRun(run_copy)
    (first,) = run.index().find(Query(1), 0, 1)
    run.annotate(first.key, score=0.5)
    run.annotate(first.key, note="half of it")
    found = OpenRun(run_copy).index().find_key(first.key)
    assert (found.person_score, found.note) == (0.5, "half of it")


def test_a_label_of_another_text_is_left_out(run_copy):
    """Covers a round that was played again: its keys name other solutions."""
    run = OpenRun(run_copy)
    (first,) = run.index().find(Query(1), 0, 1)
    run.annotate(first.key, score=1.0)
    path = run_copy / ANNOTATIONS
    line = json.loads(path.read_text())
    path.write_text(json.dumps({**line, "solution": "another text"}) + "\n")
    assert OpenRun(run_copy).index().count(Query(label="given")) == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SPACE_ID", "org/app"),
        ("GRADIO_SERVER_NAME", "0.0.0.0"),
        ("GRADIO_ROOT_PATH", "/lab/pvg"),
        ("GRADIO_SHARE", "true"),
    ],
)
def test_strangers_cannot_label(run_copy, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    run = OpenRun(run_copy)
    (first,) = run.index().find(Query(1), 0, 1)
    with pytest.raises(ValueError, match="only where nobody else reaches the app"):
        run.annotate(first.key, score=1.0)
    assert not (run_copy / ANNOTATIONS).exists()


def test_a_label_that_cannot_be_written_is_one_message(run_copy):
    run = OpenRun(run_copy)
    (first,) = run.index().find(Query(1), 0, 1)
    (run_copy / ANNOTATIONS).symlink_to(run_copy / "no-such-folder" / "file")
    with pytest.raises(ValueError, match=r"annotations\.jsonl cannot be written"):
        run.annotate(first.key, score=1.0)
    with pytest.raises(ValueError, match=r"no solution '9ts1'\. Reload"):
        run.annotate("9ts1", score=1.0)
