"""Tests of the pilot before a game, on tasks whose grades are fixed."""

import json
from argparse import Namespace

import pytest

from pvg_hf import load_recipe, play
from pvg_hf.cli.playing import _run_pilot
from pvg_hf.core.files import write_json
from pvg_hf.core.integrity import read_json
from pvg_hf.data.pool import load_pool
from pvg_hf.game.pilot import _scale_to_bootstrap, has_pilot
from pvg_hf.models.hardware import Hardware
from pvg_hf.run.layout import RunFolder

pytestmark = pytest.mark.game

NUM_PROBLEMS = 6


@pytest.fixture
def graded(game):
    """Return the recipe of a game whose task gives fixed grades."""

    def make(how: str, **changes):
        options = {"graded": how, "num_train": 300, "num_test": 4}
        task = {"name": "tests.support.recall_task:GradedRecallTask", "options": options}
        length = {"prover__max_completion_length": 32}  # nothing is cut
        return load_recipe(game(**{"task": task, "bootstrap__pilot_problems": NUM_PROBLEMS, **length, **changes}))

    return make


@pytest.mark.parametrize(
    ("prover", "expected"),
    [
        ({"model": "org/model"}, True),
        ({"model": "folder/of/a/model"}, True),
        ({"model": "arithmetic"}, False),
        ({"model": "org/model", "warmup": {}}, True),
        ({"scratch": {}}, True),
    ],
)
def test_provers_that_do_not_ship_have_a_pilot(prover, expected):
    assert has_pilot(load_recipe({"prover": prover})) is expected
    assert not has_pilot(load_recipe({"prover": prover, "bootstrap": {"pilot_problems": 0}}))


@pytest.mark.parametrize(
    ("has_gpu", "at_once", "scale"), [(True, 4, 1 / 32), (False, 4, 1 / 4), (True, 200, 1.0), (False, 200, 1.0)]
)
def test_a_pilots_rate_is_scaled_to_the_solutions_that_the_bootstrap_writes_at_once(has_gpu, at_once, scale):
    hardware = Hardware.elsewhere("cuda", has_bfloat16=True) if has_gpu else Hardware.here("cpu")
    recipe = load_recipe({"bootstrap": {"solutions_per_problem": 4}})  # 32 problems at once
    assert _scale_to_bootstrap(recipe, at_once, hardware) == pytest.approx(scale)


@pytest.mark.parametrize(
    ("how", "changes", "reason"),
    [
        ("all", {}, "base: 0 of 78 "),  # of 72 it is at most 5.1 %, of 78 surely below 5 %
        ("none", {}, "helpful: 0 of 78 "),
        ("silent", {}, "base: 6 of 6 .* 6 no answer"),
        ("half", {"prover__max_completion_length": 1}, "base: 6 of 6 .* 6 cut"),
    ],
)
def test_a_game_that_cannot_work_is_stopped_before_it_begins(how, changes, reason, graded, tmp_path):
    recipe = graded(how, **changes)
    with pytest.raises(ValueError, match=reason):
        play(recipe)
    folder = RunFolder.of(recipe)
    assert {path.name for path in folder.root.iterdir()} == {".lock", "pilot.json", "state.json"}
    written = folder.pilot.stat().st_mtime_ns
    with pytest.raises(ValueError, match=reason):  # from what is kept
        play(recipe)
    assert folder.pilot.stat().st_mtime_ns == written


def test_a_changed_recipe_has_another_pilot_and_then_plays(graded):
    with pytest.raises(ValueError, match="pilot"):
        play(graded("all"), phase="bootstrap")
    folder = play(graded("half"), phase="bootstrap")
    rows = folder.read_pilot()["rows"]
    # Either trained role writes a group of 4 to each of its problems.
    num_rows = [sum(row["role"] == role for row in rows) for role in ("base", "helpful", "sneaky")]
    assert num_rows == [NUM_PROBLEMS, 4 * NUM_PROBLEMS, 4 * NUM_PROBLEMS]
    # The base prover's are the first that it writes in the game.
    pool = load_pool(folder.pool(-1) / "base.parquet").to_list()
    first = {row["problem_id"]: row["solution"] for row in pool if row["sample_index"] == 0}
    base = {row["problem_id"]: row["solution"] for row in rows if row["role"] == "base"}
    assert base.items() <= first.items()
    # The line of the phase has the shares.
    assert "correct, " in read_json(folder.pool(-1) / "phase.json")["summary"]
    # A game that has begun has no other pilot, even if the file is lost.
    folder.pilot.unlink()
    play(graded("half"), phase="bootstrap")
    assert not folder.pilot.exists()


def test_a_game_without_a_pilot_plays(graded):
    folder = play(graded("all", bootstrap__pilot_problems=0), phase="bootstrap")
    assert not folder.pilot.exists()


def test_a_damaged_pilot_is_run_again(graded):
    recipe = graded("all")
    play(recipe, only_pilot=True)
    folder = RunFolder.of(recipe)
    whole = folder.pilot.read_bytes()
    folder.pilot.write_bytes(whole[:-100])
    play(recipe, only_pilot=True)
    assert folder.pilot.read_bytes() == whole


def test_the_pilot_alone_is_printed(graded, capsys):
    options = Namespace(json=False)
    assert _run_pilot(graded("half"), options) == 0
    printed = capsys.readouterr().out
    assert all(part in printed for part in ("base", "helpful", "sneaky", "CORRECT in the", "WRONG in the"))
    assert not RunFolder.of(graded("half")).recipe.exists()
    with pytest.raises(ValueError, match="sneaky: 0 of 78 "):
        _run_pilot(graded("all"), options)
    assert "CORRECT in the" in capsys.readouterr().out
    assert _run_pilot(graded("half"), Namespace(json=True)) == 0
    assert json.loads(capsys.readouterr().out)


def test_a_pilot_needs_problems_and_a_prover(graded):
    with pytest.raises(ValueError, match=r"`bootstrap\.pilot_problems`"):
        play(graded("half", bootstrap__pilot_problems=0), only_pilot=True)
    with pytest.raises(ValueError, match="--phase warmup"):
        play(graded("half", prover__warmup={"max_steps": 2}), only_pilot=True)


def test_a_pilot_that_was_stopped_keeps_its_finished_roles(graded):
    recipe = graded("half")
    folder = play(recipe, only_pilot=True)
    whole = read_json(folder.pilot)
    kept = [row for row in whole["rows"] if row["role"] != "sneaky"]
    marked = [{**row, "solution": "kept"} for row in kept]
    write_json(folder.pilot, {**whole, "rows": marked})
    play(recipe, only_pilot=True)
    rows = folder.read_pilot()["rows"]
    assert [row["role"] for row in rows if row["solution"] != "kept"] == ["sneaky"] * 4 * NUM_PROBLEMS
    write_json(folder.pilot, {**whole, "rows": kept})
    play(recipe, only_pilot=True)
    assert read_json(folder.pilot) == whole


def test_a_made_prover_has_its_pilot_after_the_warmup(graded):
    warmup = {"max_steps": 1, "batch_size": 4}
    with pytest.raises(ValueError, match="base: 0 of 78 "):
        play(graded("all", prover__warmup=warmup))
    folder = RunFolder.of(graded("all"))
    assert folder.models.exists()
    assert not folder.pool(-1).exists()
    # With the models that were made, the game can still be played without a pilot.
    play(graded("all", prover__warmup=warmup, bootstrap__pilot_problems=0), phase="bootstrap")
    assert (folder.pool(-1) / "base.parquet").exists()
