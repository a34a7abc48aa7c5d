"""A sweep so small that it takes seconds."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pvg_hf import load_recipe
from pvg_hf.experimental.sweep import run_sweep
from pvg_hf.run.jobs import JobFolder
from tests.support.run_fixtures import draw_rows, make_run, rounds_data, run_template, task

__all__ = ["draw_rows", "make_run", "rounds_data", "run_template", "task"]


@pytest.fixture(scope="module", autouse=True)
def _as_many_threads_as_workers_have():
    """Use as many threads as worker processes, which share the cores: sweeps are compared with theirs."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def make_sweep(make_recipe) -> Callable[..., dict[str, Any]]:
    """Makes recipes of sweeps, as plain values: one seed, three cells."""

    def make(output_dir: Path, **changes: Any) -> dict[str, Any]:
        sweep = {"levels": [0, 0.2], "seeds": [0], "corrections": ["none", "forward"]}
        return make_recipe(
            output_dir,
            **{"name": "levels", "sweep": sweep, "task__options": {"num_train": 160, "num_test": 4}, **changes},
        )

    return make


@pytest.fixture(scope="session")
def swept(tmp_path_factory, make_sweep) -> JobFolder:
    """A finished sweep. Tests read it and never write to it."""
    return run_sweep(load_recipe(make_sweep(tmp_path_factory.mktemp("swept"))), num_workers=1)
