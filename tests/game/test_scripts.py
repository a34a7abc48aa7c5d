"""Commands on a finished game, and the script that answers problems."""

import json
import os
import subprocess
import sys

import pytest
from transformers import AutoModelForCausalLM

from pvg_hf.cli.main import main
from pvg_hf.data.pool import load_pool
from pvg_hf.run.layout import RunFolder
from tests.support.game_runs import bytes_of, copy_until


def _run(*words: str, cwd=None) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "pvg_hf", *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, timeout=500)


@pytest.mark.game
def test_export_writes_weights_that_load_by_themselves(reference, tmp_path):
    output = tmp_path / "exported"
    done = _run("export", str(reference.root), "--output", str(output), "--dtype", "float32")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(output)
    assert AutoModelForCausalLM.from_pretrained(output).num_parameters() > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--round", "7"], r"no prover of round 7; it has those of [0, 1]"),
        (["--checkpoint", "sneaky"], "has no checkpoint `sneaky`; it has ['best-helpful', 'last']."),
    ],
)
def test_untrained_players_cannot_be_exported(arguments, message, reference, tmp_path, capsys):
    assert main(["export", str(reference.root), "--output", str(tmp_path / "out"), *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made_is_an_error_in_one_line(reference, capsys):
    assert main(["export", str(reference.root), "--output", "/dev/null/out"]) == 2
    assert capsys.readouterr().err.startswith("error: `/dev/null/out` cannot be written: ")


def test_evaluations_are_listed_without_a_run(capsys):
    assert main(["evaluate", "--list"]) == 0
    assert "best_of_n.num_samples=256" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["evaluate"])
    assert ended.value.code == 2
    assert "a run is required" in capsys.readouterr().err


@pytest.mark.parametrize(("threshold", "status"), [("0", 0), ("1", 1)], ids=["given", "withheld"])
def test_the_status_says_whether_there_is_an_answer(threshold, status, reference, capsys):
    problem = load_pool([reference.pool(0) / "test-helpful.parquet"], ["problem"])["problem"][0]
    options = ["--abstain-below", threshold, "--device", "cpu"]
    assert main(["answer", str(reference.root), problem, *options]) == status
    assert capsys.readouterr().out.splitlines()[-1].startswith("No answer: ") == bool(status)


def test_players_are_found_by_their_paths(reference):
    assert reference.player("verifier", 0) == reference.verifier(0)
    assert reference.player("prover") == reference.prover(1)
    assert reference.player("prover", 0, "best-helpful") == reference.best_helpful(0)


@pytest.mark.game
@pytest.mark.nightly
def test_a_game_phase_by_phase_is_the_same_game(reference, make_recipe, tmp_path):
    recipe = tmp_path / "recipe.json"
    recipe.write_text(json.dumps(make_recipe(tmp_path)))
    copy_until(reference, tmp_path, "round-001/verifier")
    done = _run("play", str(recipe), "--launcher", sys.executable)
    assert done.returncode == 0, done.stderr[-2000:]
    assert bytes_of(RunFolder(tmp_path / "game")) == bytes_of(reference)
    again = _run("play", str(recipe), "--launcher", "false")
    assert again.returncode == 0  # nothing is left to be played
