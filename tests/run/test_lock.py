import fcntl
import logging
import os
import subprocess
import sys

import pytest

from pvg_hf import load_recipe, play
from pvg_hf.run.lock import locked


def test_second_play_of_a_run_is_refused_and_the_first_named(tmp_path, game):
    with (
        locked(tmp_path / "game", is_main=True),
        pytest.raises(ValueError, match=rf"game .*process {os.getpid()} on "),
    ):
        play(load_recipe(game()))
    assert not (tmp_path / "game").exists()  # neither wrote anything


def test_other_process_is_locked_out_until_the_block_ends(tmp_path):
    code = "import sys, pathlib\nfrom pvg_hf.run.lock import locked\nwith locked(pathlib.Path(sys.argv[1]), is_main=True): pass"
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
    ("is_there", "files"), [(False, []), (False, ["recipe.yaml"]), (True, [])], ids=["unused", "used", "older"]
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
