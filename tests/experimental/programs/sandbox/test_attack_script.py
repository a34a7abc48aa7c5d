"""`tools/attack_sandbox.py`: generated hostile programs achieve nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from pvg_hf.experimental.programs.sandbox.backends import make_backends

REPOSITORY = Path(__file__).parents[4]


def attack(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "tools.attack_sandbox", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, timeout=200, check=False)


@pytest.mark.parametrize("backend", ["bubblewrap"])
def test_generated_attacks_achieve_nothing(backend):
    lacking = make_backends()[backend].lacking
    if lacking is not None:
        pytest.skip(lacking)
    run = attack("--backend", backend, "--programs", "40", "--seed", "1")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "wrong passes: 0" in run.stdout


def test_the_script_refuses_to_attack_without_isolation():
    run = attack("--backend", "none")
    assert run.returncode != 0
    assert "isolates nothing" in run.stderr
