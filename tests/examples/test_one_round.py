"""`examples/one_round.py` plays a round, at small sizes."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.docs

REPOSITORY = Path(__file__).parents[2]
SIZES = ("--problems", "100", "--verifier-steps", "2", "--prover-steps", "1")


def test_one_round_ends_with_a_line_for_each_prover(tmp_path):
    command = [sys.executable, "examples/one_round.py", str(tmp_path / "round"), *SIZES]
    run = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=400)
    assert run.returncode == 0, run.stderr[-2000:]
    header, *lines = run.stdout.strip().splitlines()[-4:]
    assert header.split() == ["role", "correct", "mean", "score"]
    assert [line.split()[0] for line in lines] == ["base", "helpful", "sneaky"]
    shares = [int(line.split()[1].removesuffix("%")) for line in lines]
    assert all(0 <= share <= 100 for share in shares)
    assert (tmp_path / "round/base.parquet").exists()
    assert (tmp_path / "round/verifier/model.safetensors").exists()
