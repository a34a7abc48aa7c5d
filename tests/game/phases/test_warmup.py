import json
import shutil
import subprocess
import sys

import pytest
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from pvg_hf import load_recipe, play
from pvg_hf.core.integrity import read_json, read_json_lines
from pvg_hf.data.problems import GameProblems
from pvg_hf.game.phases.warmup import _references
from pvg_hf.run.layout import RunFolder
from tests.support.game_runs import differing, play_in_process

pytestmark = pytest.mark.game

SCRATCH = {
    "model_type": "llama",
    "vocab_size": 300,
    "config": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16},
}
# Both players are fine-tuned; the prover is first initialised from scratch.
CHANGES = {
    "prover__scratch": SCRATCH,
    "prover__warmup": {"max_steps": 3, "batch_size": 4},
    "verifier__warmup": {"max_steps": 2, "batch_size": 4},
}

SHORT_WITH_LORA = {"lora": {"r": 2}, "max_steps": 2}


@pytest.fixture(scope="module")
def warm(tmp_path_factory, make_recipe) -> RunFolder:
    recipe = make_recipe(tmp_path_factory.mktemp("warm"), **CHANGES)
    return play(load_recipe(recipe), phase="warmup")


def test_both_players_are_made(warm, player):
    sizes = {
        name: AutoModelForCausalLM.from_pretrained(warm.models / name).config.hidden_size
        for name in ("prover", "verifier")
    }
    assert sizes == {"prover": 16, "verifier": 32}
    assert len(AutoTokenizer.from_pretrained(warm.models / "prover")) == 300
    before, after = load_file(player / "model.safetensors"), load_file(warm.models / "verifier" / "model.safetensors")
    assert [name for name in before if before[name].equal(after[name])] == []


@pytest.mark.parametrize("name", ["prover", "verifier"])
def test_a_player_reads_only_its_own_problems(name, tokenizer, make_recipe, tmp_path):
    problems = GameProblems.load(load_recipe(make_recipe(tmp_path)))
    shown = {row["prompt"].split("\n")[0] for row in _references(problems, name, tokenizer)}
    assert shown == set(problems.parts[name]["problem"])


def test_its_steps_come_first_on_the_games_axis(warm):
    lines = read_json_lines(warm.metrics)
    assert [(line["game_step"], "warmup/prover/loss" in line) for line in lines] == [
        (1, True),
        (2, True),
        (3, True),
        (4, False),
        (5, False),
    ]


def test_killed_between_the_players_it_resumes_to_the_same_bytes(warm, tmp_path, make_recipe):
    recipe = make_recipe(tmp_path, **CHANGES)
    moment = {"event": "open", "pattern": r"\.models\.partial/verifier/config\.json"}
    order = {"recipe": recipe, "phase": "warmup", "signal": "SIGKILL", "moment": moment}
    assert play_in_process(order, tmp_path / "log.txt") == -9
    folder = play(load_recipe(recipe), phase="warmup")
    assert differing(folder, warm) == []


def test_stopped_within_a_player_it_resumes_from_a_checkpoint_to_the_same_bytes(tmp_path, make_recipe):
    longer = {**CHANGES, "prover__warmup": {"max_steps": 12, "batch_size": 4}}
    whole = play(load_recipe(make_recipe(tmp_path / "whole", **longer)), phase="warmup")
    recipe = make_recipe(tmp_path, **longer)
    moment = {"event": "open", "pattern": r"\.models\.partial/checkpoints/prover/checkpoint-10/trainer_state"}
    order = {"recipe": recipe, "phase": "warmup", "signal": "SIGINT", "moment": moment}
    assert play_in_process(order, tmp_path / "log.txt") == 1
    folder = play(load_recipe(recipe), phase="warmup")
    # The signal came while step 10 was being saved; the next step was ended first.
    events = read_json_lines(folder.events)
    assert [event["checkpoint"] for event in events if event["event"] == "continued"] == ["checkpoint-11"]
    assert differing(folder, whole) == []
    assert sorted(path.name for path in folder.models.iterdir() if path.is_dir()) == ["prover", "verifier"]


def test_the_command_saves_checkpoints(tmp_path, make_recipe, repository):
    """The command imports TRL without wandb, and TRL's own card of a checkpoint needs it if it is installed."""
    file = tmp_path / "recipe.yaml"
    file.write_text(json.dumps(make_recipe(tmp_path, prover__warmup={"max_steps": 11, "batch_size": 4})))
    words = [sys.executable, "-m", "pvg_hf", "play", str(file), "--phase", "warmup"]
    done = subprocess.run(words, cwd=repository, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["prover", "verifier"])
def test_loss_that_is_not_finite_ends_the_phase(name, tmp_path, make_recipe):
    recipe = load_recipe(make_recipe(tmp_path, **{f"{name}__warmup": {"max_steps": 4, "batch_size": 4}}))
    recipe.player(name).warmup.learning_rate = 1.0e30  # a recipe refuses it
    with pytest.raises(FloatingPointError, match="step 3 is nan"):
        play(recipe, phase="warmup")
    assert not (tmp_path / "game" / "models").exists()


def test_the_game_uses_the_players_that_were_made(warm, tmp_path, make_recipe):
    """A game that starts from the finished prover writes the same solutions."""
    shutil.copytree(warm.root, tmp_path / "made" / "game")
    made = play(load_recipe(make_recipe(tmp_path / "made", **CHANGES)), phase="bootstrap")
    given = make_recipe(tmp_path / "given", prover__model=str(warm.models / "prover"))
    given = play(load_recipe(given), phase="bootstrap")
    files = sorted(given.pool(-1).glob("*.parquet"))
    assert [file.name for file in files] == ["base.parquet", "test-helpful.parquet", "test-sneaky.parquet"]
    assert [file.name for file in files if file.read_bytes() != (made.pool(-1) / file.name).read_bytes()] == []


@pytest.mark.nightly
def test_adapters_on_players_that_the_run_made_are_found_after_it_was_moved(tmp_path, make_recipe):
    """Named relative to the working directory, the bases could not be found from another one either."""
    changes = {f"{name}__warmup": {"max_steps": 1, "batch_size": 4} for name in ("prover", "verifier")}
    changes |= {f"{name}__{key}": value for name in ("prover", "verifier") for key, value in SHORT_WITH_LORA.items()}
    recipe = load_recipe(make_recipe(tmp_path / "runs", num_rounds=1, **changes))
    for phase, round_index in (("warmup", None), ("bootstrap", None), ("verifier", 0), ("prover", 0)):
        folder = play(recipe, phase=phase, round_index=round_index)
    bases = {
        str(file.parent.relative_to(folder.root)): read_json(file)["base_model_name_or_path"]
        for file in folder.root.rglob("adapter_config.json")
    }
    assert bases == {
        "verifier/round-000": "../../models/verifier",
        "prover/round-000": "../../models/prover",
        "prover/round-000/best-helpful": "../../../models/prover",
    }
    shutil.move(tmp_path / "runs", tmp_path / "elsewhere")
    moved = play(load_recipe(make_recipe(tmp_path / "elsewhere", num_rounds=1, **changes)))
    assert (moved.evaluation(0) / "metrics.json").exists()
