"""Runs of the message game: played, resumed, planned."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pvg_hf.config import RecipeError
from pvg_hf.core.integrity import read_json
from pvg_hf.experimental.messages.building import open_world
from pvg_hf.experimental.messages.folder import describe_run
from pvg_hf.experimental.messages.recipe import load_message_recipe
from pvg_hf.experimental.messages.run import describe_message_plan, load_games, make_message_trainer, play_messages
from tests.support.message_games import SMALL, small_recipe

REPOSITORY = Path(__file__).parents[3]


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in (root / "games").rglob("*.safetensors")}


def test_a_run_is_played_judged_and_not_played_again(tmp_path):
    recipe = small_recipe(f"output_dir={tmp_path}", "controls=[none, witness]")
    assert "not begun" in describe_run(recipe)
    folder = play_messages(recipe)
    judged = read_json(folder.judgement)
    assert judged.keys() == {"prover", "none", "witness"}
    assert judged["prover"]["accuracy"]["n"] == 60
    assert "soundness_attack" in judged["prover"]
    before = {path: path.stat().st_mtime_ns for path in folder.root.rglob("*.safetensors")}
    play_messages(recipe)
    assert before == {path: path.stat().st_mtime_ns for path in folder.root.rglob("*.safetensors")}
    assert "Game     witness: finished" in describe_run(recipe)
    games = dict(load_games(recipe, open_world(recipe), folder))
    assert games["none"].rules.message_source == "none"


def test_a_stopped_run_resumes_to_the_same_bytes(tmp_path):
    whole = play_messages(small_recipe(f"output_dir={tmp_path}", "name=whole"))
    recipe = small_recipe(f"output_dir={tmp_path}", "name=stopped", "save_steps=4")
    folder = type(whole).of(recipe)
    # What a killed run leaves behind: a checkpoint of the first game, at step 4 of 10.
    stopped = make_message_trainer(recipe, open_world(recipe), folder.training("prover"), "prover")
    stopped.args.max_steps = 4
    stopped.train()
    play_messages(recipe)
    assert files(folder.root) == files(whole.root)
    assert not folder.training("prover").exists()


def test_a_changed_recipe_is_refused(tmp_path):
    play_messages(small_recipe(f"output_dir={tmp_path}"))
    with pytest.raises(ValueError, match=r"training\.num_rounds.*2 before, 3 now"):
        play_messages(small_recipe(f"output_dir={tmp_path}", "training.num_rounds=3"))
    play_messages(small_recipe(f"output_dir={tmp_path}", "judging.attack_steps=2"))


def test_a_control_can_be_added_later(tmp_path):
    folder = play_messages(small_recipe(f"output_dir={tmp_path}", "controls=[]"))
    before = files(folder.root)
    play_messages(small_recipe(f"output_dir={tmp_path}", "controls=[witness]"))
    assert read_json(folder.judgement).keys() == {"prover", "witness"}
    assert before.items() <= files(folder.root).items()


def test_a_recipe_may_change_until_something_was_played(tmp_path):
    recipe = small_recipe(f"output_dir={tmp_path}", "messages.width=3", "verifier={kind: checking, start: parity}")
    with pytest.raises(ValueError, match=r"6 inputs are not|9 inputs are not"):
        play_messages(recipe)
    play_messages(small_recipe(f"output_dir={tmp_path}"))


def test_a_run_of_another_kind_is_refused(tmp_path):
    recipe = small_recipe(f"output_dir={tmp_path}", "name=other")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "recipe.yaml").write_text("task: arithmetic\n")
    with pytest.raises(ValueError, match="run of another kind"):
        play_messages(recipe)


def test_files_of_a_tracker_are_kept(tmp_path):
    folder = play_messages(small_recipe(f"output_dir={tmp_path}", "report_to=[tensorboard]", "controls=[]"))
    assert list(folder.game("prover").glob("runs/**/events.out.tfevents.*"))


def test_a_plan_writes_nothing(tmp_path):
    plan = describe_message_plan(small_recipe(f"output_dir={tmp_path / 'runs'}"))
    assert "200 training and 60 test problems" in plan
    assert "to play: prover, none" in plan
    assert "Rounds   2; to play: 14 steps, about" in plan  # 5 steps a round, and 2 of the verifier alone
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "values",
    [{"prover": {"kind": "transformer"}}, {"world": {"name": "stand_in"}}],
    ids=["vectors-need-mlp", "texts-need-transformers"],
)
def test_players_must_fit_the_world(values):
    with pytest.raises(RecipeError, match=r"`prover\.kind` is"):
        open_world(load_message_recipe({**SMALL, **values}))


def test_the_script(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump({**SMALL, "output_dir": str(tmp_path), "name": "small"}))
    command = [sys.executable, "-m", "pvg_hf", "play", str(path), "training.num_rounds=1"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Accuracy prover" in done.stdout
    assert (tmp_path / "small" / "report.html").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("prover_steps", [3, "best_response"])
def test_two_processes_play_and_resume(tmp_path, prover_steps):
    """Processes that took different turns would wait for each other forever."""
    path = tmp_path / "small.yaml"
    training = {**SMALL["training"], "prover_steps": prover_steps, "response_patience": 2, "max_prover_steps": 20}
    values = {**SMALL, "training": training, "output_dir": str(tmp_path), "name": "small", "save_steps": 4}
    path.write_text(yaml.safe_dump(values))
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2"]
    command = [*launch, "-m", "pvg_hf", "play", str(path)]
    for _ in range(2):  # the second time, everything is finished
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("Accuracy prover") == 1  # one process reports
    judged = read_json(tmp_path / "small" / "judgement.json")
    assert judged["prover"]["accuracy"]["n"] == 60
