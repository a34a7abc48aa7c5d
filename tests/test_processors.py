"""
Tests that sample or train pass on processors with other vector units, where tokens and last digits differ. Of the phases,
which all train with the trainers below, two are enough.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SAMPLING_OR_TRAINING = [
    "tests/game/test_minting.py",
    "tests/game/phases/test_learning.py",
    "tests/game/phases/test_verifier.py",
    "tests/sampling",
    "tests/scoring/test_discriminative_verifier.py",
    "tests/trainers/reward/test_trainer.py",
    "tests/trainers/prover/test_trainer.py",
    "tests/trainers/ppo/test_trainer.py",
]


@pytest.mark.slow
def test_sampling_and_training_tests_hold_without_vector_units():
    settings = {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "AVX2", "OMP_NUM_THREADS": "1"}
    selection = ["-m", "not slow and not gpu", "-q", "-p", "no:cacheprovider", "-n", "0", "-o", "addopts="]
    command = [sys.executable, "-m", "pytest", "--import-mode=importlib", *selection, *SAMPLING_OR_TRAINING]
    # Without the variables by which pytest-xdist would take the child for one of its workers.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    result = subprocess.run(command, cwd=ROOT, env={**environment, **settings}, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-5000:]
