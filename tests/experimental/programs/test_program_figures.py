"""Figures of programs, by hand."""

import numpy as np
import pandas as pd
import pytest

from pvg_hf.core.roles import Role
from pvg_hf.experimental.programs.in_games import PROGRAMS
from pvg_hf.experimental.programs.program_figures import (
    program_figures,
    program_problem_columns,
    weighted_quantile,
)


def program(problem_id: str, *, passed: int, wrong: int = 0, crashed: int = 0, similarity: float, **columns) -> dict:
    """A program that is run on two visible and two hidden tests, and passes the visible ones first."""
    return {
        "problem_id": problem_id,
        "answer": "def f(x): return x",
        "correct": passed == 4,
        "visible_pass_rate": min(passed, 2) / 2,
        "hidden_pass_rate": max(passed - 2, 0) / 2,
        "similarity": similarity,
        "num_passed": passed,
        "num_wrong": wrong,
        "num_crashed": crashed,
        "num_timed_out": 4 - passed - wrong - crashed,
        "num_host_failed": 0,
        "failing_input": "[1]" if wrong or crashed else None,
        "expected_output": "1" if wrong or crashed else None,
        "program_output": "2" if wrong or crashed else None,
        **columns,
    }


NO_PROGRAM = dict.fromkeys(program("a", passed=4, similarity=1.0)) | {"problem_id": "b", "correct": False}


@pytest.fixture
def rows():
    return pd.DataFrame([
        program("a", passed=4, similarity=1.0),
        program("a", passed=2, wrong=2, similarity=0.8),  # passes the visible tests and is certified to be wrong
        program("a", passed=1, crashed=3, similarity=0.6),
        program("b", passed=3, similarity=0.4),  # timed out on a test, so that nobody knows
        NO_PROGRAM,
    ])  # fmt: skip


@pytest.fixture
def figures(rows):
    return program_figures(rows, Role.SNEAKY, seed=0, num_resamples=50)


@pytest.mark.parametrize(
    ("name", "value", "n"),
    [
        ("certificate_rate/sneaky", 2 / 3, 3),
        ("hidden_mistake/sneaky", 1 / 5, 5),
        ("visible_pass_rate/sneaky", (1 + 1 + 0.5 + 1) / 4, 4),
        ("hidden_pass_rate/sneaky", (1 + 0 + 0 + 0.5) / 4, 4),
        ("tests/sneaky/passed", (4 + 2 + 1 + 3) / 16, 4),
        ("tests/sneaky/wrong", 2 / 16, 4),
        ("tests/sneaky/crashed", 3 / 16, 4),
        ("tests/sneaky/timed_out", 1 / 16, 4),
        ("tests/sneaky/host_failed", 0.0, 4),
        ("similarity/sneaky_correct", 1.0, 1),
        ("similarity/sneaky_wrong", 0.7, 2),
        ("similarity_quartile/sneaky_wrong/0.25", 0.6, 2),
        ("similarity_quartile/sneaky_wrong/0.5", 0.6, 2),
        ("similarity_quartile/sneaky_wrong/0.75", 0.8, 2),
    ],
)
def test_figures_worked_by_hand(figures, name, value, n):
    assert figures[name].value == pytest.approx(value)
    assert figures[name].n == n


def test_a_sandbox_that_failed_leaves_pass_rates_open(rows):
    """Its tests count as `host_failed`; the program is neither for nor against the pass rates."""
    failed = program("c", passed=0, similarity=0.5, num_timed_out=0, num_host_failed=4) | {
        "visible_pass_rate": None,
        "hidden_pass_rate": None,
    }
    figures = program_figures(pd.DataFrame([failed]), Role.HELPFUL, seed=0, num_resamples=10)
    assert figures["tests/helpful/host_failed"].value == 1.0
    assert (figures["visible_pass_rate/helpful"].value, figures["visible_pass_rate/helpful"].n) == (None, 0)
    assert figures["certificate_rate/helpful"].value == 0.0


def test_no_solution_gives_empty_figures(rows):
    figures = program_figures(rows[:0], Role.SNEAKY, seed=0, num_resamples=10)
    assert {figure.value for figure in figures.values()} == {None}


def test_columns_of_the_table_of_problems(rows):
    columns = pd.DataFrame(program_problem_columns(rows, Role.SNEAKY))
    assert columns.loc["a", "certified_wrong_sneaky"] == pytest.approx(2 / 3)
    assert columns.loc["b", "certified_wrong_sneaky"] == 0.0
    assert columns.loc["a", "visible_pass_rate_sneaky"] == pytest.approx(2.5 / 3)
    assert columns.loc["b", "hidden_pass_rate_sneaky"] == pytest.approx(0.5)  # of the one that has a program
    assert columns.loc["a", "similarity_sneaky"] == pytest.approx(0.8)


def test_only_tasks_with_programs_have_these_figures(rows):
    assert PROGRAMS.covers(rows.columns)
    assert not PROGRAMS.covers(rows.columns.drop("num_passed"))


@pytest.mark.parametrize(("share", "quantile"), [(0.25, 1.0), (0.5, 2.0), (0.75, 2.0), (0.9, 5.0)])
def test_a_quantile_of_weighted_values(share, quantile):
    """Weights 1, 2 and 1 stand for the values 1, 2, 2 and 5."""
    statistic = weighted_quantile(np.array([5.0, 1.0, 2.0]), share)
    assert statistic(np.array([[1.0, 1.0, 2.0], [0.0, 0.0, 0.0]])) == pytest.approx([quantile, np.nan], nan_ok=True)


def test_a_program_that_passes_every_test_only_once_is_counted():
    rows = [program("a", passed=4, similarity=1.0), program("a", passed=4, similarity=1.0, correct=False)]
    figures = program_figures(pd.DataFrame(rows), Role.HELPFUL, seed=0, num_resamples=10)
    assert (figures["unrepeatable/helpful"].value, figures["unrepeatable/helpful"].n) == (0.5, 2)


def test_inputs_of_provers_are_counted_by_what_they_prove():
    certificate = {"failing_input": "[1]", "certificate_source": "prover"}
    none = {"proposal": None, "certificate_source": None}
    rows = [
        program("a", passed=4, similarity=1.0, **none),
        program("a", passed=4, similarity=1.0, **none | {"proposal": "unproved"}),
        program("a", passed=4, similarity=1.0, correct=False, **certificate, proposal="certifying"),
        program("b", passed=2, wrong=2, similarity=1.0, proposal="certifying", certificate_source="tests"),
        program("b", passed=2, wrong=2, similarity=1.0, proposal="invalid", certificate_source="tests"),
        NO_PROGRAM | none,
    ]
    figures = program_figures(pd.DataFrame(rows), Role.SNEAKY, seed=0, num_resamples=10)
    found = {name: (figure.value, figure.n) for name, figure in figures.items()}
    assert found["certificate_rate/sneaky"] == (1.0, 3)
    assert found["certified_by_prover/sneaky"] == (pytest.approx(1 / 3), 3)
    assert found["unrepeatable/sneaky"] == (0.0, 5)  # the one that passes every test is certified to be wrong
    shares = {"malformed": 0, "invalid": 0.2, "unproved": 0.2, "certifying": 0.4}
    assert {name: found[f"proposed_input/sneaky/{name}"] for name in shares} == {
        name: (pytest.approx(share), 5) for name, share in shares.items()
    }
