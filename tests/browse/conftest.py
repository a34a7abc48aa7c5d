"""A played run, as a reader opens it."""

import shutil
from pathlib import Path

import pytest

from pvg_hf.browse.index import SolutionIndex
from pvg_hf.game.folder import RunFolder


@pytest.fixture(scope="session")
def index(arithmetic_run) -> SolutionIndex:
    return SolutionIndex(RunFolder(arithmetic_run))


@pytest.fixture
def run_copy(arithmetic_run, tmp_path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(arithmetic_run, tmp_path / "runs" / "small"))
