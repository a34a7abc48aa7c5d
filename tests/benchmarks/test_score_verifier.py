"""The comparison of rewards, at sizes that take two minutes."""

import os
import subprocess
import sys

import pytest


@pytest.mark.nightly
def test_the_experiment_compares_all_rewards(repository, tmp_path):
    command = [sys.executable, "benchmarks/score_verifier.py", "--seeds", "0", "--steps", "2", "--every", "1"]
    command += ["--proofs", "12", "--output-dir", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(repository), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = _table_rows(done.stdout)
    assert sum(line.startswith("| additive |") for line in rows) == 3  # before, and after each step
    assert any(line.startswith("| n=8, m=3, k=3 |") for line in rows)
    assert any(line.startswith("| with R_meta |") for line in rows)
    again = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, check=True)
    assert _table_rows(again.stdout) == rows
    assert "'loss'" in done.stdout
    assert "'loss'" not in again.stdout  # nothing is trained twice


def _table_rows(stdout: str) -> list[str]:
    return [line for line in stdout.splitlines() if line.startswith("| ")]
