"""`tools/write_pair_picture.py` on a played run."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.nightly


def _write(repository, run, output, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "tools.write_pair_picture", str(run), str(output), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)


def test_a_pair_is_drawn_as_a_picture(chromium, repository, arithmetic_run, tmp_path):
    done = _write(repository, arithmetic_run, tmp_path / "pair.png", "--round", "0")
    assert done.returncode == 0, done.stderr
    picture = (tmp_path / "pair.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert int.from_bytes(picture[16:20]) == 1400  # its width: 1,000 pixels at a scale of 1.4


def test_a_picture_of_a_round_that_was_not_played_is_refused(repository, arithmetic_run, tmp_path):
    done = _write(repository, arithmetic_run, tmp_path / "pair.png", "--round", "7")
    assert done.returncode == 2
    assert "Round 7" in done.stderr
    assert "[-1, 0, 1]" in done.stderr
    assert not (tmp_path / "pair.png").exists()
