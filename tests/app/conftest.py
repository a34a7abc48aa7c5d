"""A played run, opened for reading, and the app on it in a browser."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pvg_hf.app.index import SolutionIndex
from pvg_hf.evaluation.summary import problem_table
from pvg_hf.run.layout import RunFolder
from pvg_hf.run.phase_record import seal_phase
from tests.support.app_fixtures import app, chromium, open_page, serve, serve_for_module

__all__ = ["app", "chromium", "open_page", "serve", "serve_for_module"]


@pytest.fixture(scope="session")
def index(arithmetic_run) -> SolutionIndex:
    return SolutionIndex(RunFolder(arithmetic_run))


@pytest.fixture(scope="session")
def rescored_run(arithmetic_run, tmp_path_factory) -> Path:
    """The run with scores drawn at random, so that every kind of problem occurs."""
    folder = RunFolder(tmp_path_factory.mktemp("rescored") / "small")
    shutil.copytree(arithmetic_run, folder.root)
    rng = np.random.default_rng(0)
    base = [pd.read_parquet(file) for file in folder.pool(-1).glob("test-*.parquet")]
    for round_index in (0, 1):
        tables = []
        for file in sorted(folder.pool(round_index).glob("test-[hs]*.parquet")):
            rows = pd.read_parquet(file)
            tables.append(rows.assign(score=rng.normal(size=len(rows))))
            tables[-1].to_parquet(file)
        problem_table(pd.concat([*tables, *base])).to_parquet(folder.evaluation(round_index) / "problems.parquet")
        (folder.evaluation(round_index) / "pool_scores.parquet").unlink()
    for place in folder.phase_folders():
        seal_phase(place)
    return folder.root


@pytest.fixture(scope="session")
def rescored_index(rescored_run) -> SolutionIndex:
    return SolutionIndex(RunFolder(rescored_run))
