import fcntl
import logging
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from pvg_hf import load_recipe, play
from pvg_hf.run.lock import locked
from tests.support.game_runs import check_same_so_far, copy_until, play_in_process, start_process


@pytest.mark.game
def test_second_play_of_a_run_is_refused_and_the_first_named(tmp_path, game):
    with (
        locked(tmp_path / "game", is_main=True),
        pytest.raises(ValueError, match=rf"game .*process {os.getpid()} on "),
    ):
        play(load_recipe(game()))
    assert not (tmp_path / "game").exists()  # neither wrote anything


def test_other_process_is_locked_out_until_the_block_ends(tmp_path):
    code = (
        "import sys, pathlib\nfrom pvg_hf.run.lock import locked\nwith locked(pathlib.Path(sys.argv[1]),"
        " is_main=True): pass"
    )
    command = [sys.executable, "-c", code, tmp_path]
    with locked(tmp_path, is_main=True):
        refused = subprocess.run(command, capture_output=True, text=True)
        assert f"played by process {os.getpid()} on" in refused.stderr
        assert refused.returncode != 0
    assert subprocess.run(command).returncode == 0


def test_is_free_again_after_an_error(tmp_path):
    with pytest.raises(KeyError), locked(tmp_path, is_main=True):
        raise KeyError
    with locked(tmp_path, is_main=True):
        pass


@pytest.mark.parametrize(
    ("is_there", "files"),
    [(False, []), (False, ["recipe.yaml"]), (True, [])],
    ids=["unused", "used", "without a lock"],
)
def test_a_folder_made_for_the_lock_is_removed_unless_it_was_used(is_there, files, tmp_path):
    root = tmp_path / "runs" / "game"
    if is_there:
        root.mkdir(parents=True)
    with locked(root, is_main=True):
        for name in files:
            (root / name).touch()
    assert root.exists() == (is_there or bool(files))


def test_processes_of_one_game_do_not_lock_each_other_out(tmp_path):
    with locked(tmp_path, is_main=True), locked(tmp_path, is_main=False):
        pass


def test_a_file_system_without_locks_is_reported(tmp_path, caplog, monkeypatch):
    def refuse(file, operation):
        if operation != fcntl.LOCK_UN:
            raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with caplog.at_level(logging.WARNING), locked(tmp_path, is_main=True):
        assert "cannot be locked ([Errno 37] No locks available)" in caplog.text


@pytest.mark.parametrize("ending", ["moved", "replaced", "without its lock"])
def test_a_folder_that_is_gone_is_the_error_of_whatever_fails_then(ending, tmp_path):
    root = tmp_path / "game"

    def play_there() -> None:
        with locked(root, is_main=True) as lock:
            assert lock.find_loss() is None
            if ending == "without its lock":
                (root / ".lock").unlink()
            else:
                root.rename(tmp_path / "elsewhere")
            if ending == "replaced":
                root.mkdir()
                (root / ".lock").write_text("7 on another machine")
            assert lock.find_loss() is not None
            (root / "missing" / "file").read_text()

    with pytest.raises(ValueError, match=r"game was deleted, moved or replaced .*`output_dir`"):
        play_there()
    assert root.exists() == (ending != "moved")


@pytest.mark.game
@pytest.mark.parametrize(
    ("phase", "event", "pattern"),
    [
        ("mint", "os.rename", r"batches/helpful-verifier-000000/0001\.parquet'"),
        ("prover", "open", r"checkpoints/checkpoint-2/trainer_state"),
    ],
)
def test_a_game_whose_folder_is_moved_ends_and_resumes_there(phase, event, pattern, tmp_path, make_recipe, reference):
    folder, elsewhere = copy_until(reference, tmp_path, f"round-000/{phase}"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    order = {"recipe": make_recipe(tmp_path), "phase": phase, "round_index": 0}
    order |= {"move": [str(folder.root), str(elsewhere / "game")], "moment": {"event": event, "pattern": pattern}}
    log = tmp_path / "log.txt"
    assert play_in_process(order, log) == 1
    assert "game was deleted, moved or replaced" in log.read_text().splitlines()[-1]
    assert not folder.root.exists()
    moved = play(load_recipe(make_recipe(elsewhere)), phase=phase, round_index=0)
    check_same_so_far(moved, reference)


@pytest.mark.game
def test_two_games_at_once_are_refused_the_second_time(tmp_path, make_recipe, reference):
    """The first process is held in the middle of a phase until the second one has ended."""
    folder, log = copy_until(reference, tmp_path, "round-000/mint"), tmp_path / "log.txt"
    order = {"recipe": make_recipe(tmp_path), "phase": "mint", "round_index": 0}
    moment = {"event": "os.rename", "pattern": r"batches/helpful-verifier-000000/0001\.parquet'"}
    first = start_process({**order, "signal": "SIGSTOP", "moment": moment}, tmp_path / "first.txt")
    while psutil.Process(first.pid).status() != psutil.STATUS_STOPPED:
        time.sleep(0.1)
    assert play_in_process(order, log) == 1
    assert f"game is being played by process {first.pid} on" in log.read_text().splitlines()[-1]
    os.kill(first.pid, signal.SIGCONT)
    first.join(timeout=400)
    assert first.exitcode == 0
    check_same_so_far(folder, reference)
