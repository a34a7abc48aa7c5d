"""Runs written by hand, and the evaluation that experiments add."""

import pytest

from experiments.legibility_tax import EVALUATION
from pvg_hf.experimental.judging.round_evaluations import EVALUATIONS
from tests.support.run_fixtures import draw_rows, make_run, rounds_data, run_template, task

__all__ = ["draw_rows", "make_run", "rounds_data", "run_template", "task"]


@pytest.fixture(autouse=True)
def _legibility_tax(monkeypatch):
    monkeypatch.setitem(EVALUATIONS, "legibility_tax", EVALUATION)  # removed after the test
