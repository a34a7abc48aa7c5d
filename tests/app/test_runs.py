"""Opening a run, and the error if there is none."""

import os
import shutil

import pytest

from pvg_hf.app.runs import OpenRun, open_run, sibling_runs


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
