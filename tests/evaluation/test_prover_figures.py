"""Figures of the prover phase."""

import numpy as np
import pandas as pd
import pytest

from pvg_hf.core.figure import Figure
from pvg_hf.core.roles import Role
from pvg_hf.evaluation.prover_figures import (
    WrongSolutions,
    false_positive_rises,
    is_collapse_expected,
    last_early_step,
    late_changes,
    new_text_figures,
    parity_figures,
)
from tests.support.pool_rows import solution


def test_the_last_record_of_parity_counts():
    """The figures are those of the sneaky role, which `roles: separate` trains last."""
    lines = [
        {"prover/score/helpful_correct": 1.0},
        {"prover/parity_num_steps": 3, "prover/parity_gap": 2.0},
        {"prover/parity_num_steps": 50, "prover/parity_gap": 0.05, "prover/parity_step": 41},
        {"prover/checked": 3},
    ]
    assert parity_figures(lines) == {
        "parity_step": Figure(41, None, None, 50),
        "parity_gap": Figure(0.05, None, None, 50),
    }


def test_parity_that_was_not_reached_has_steps_and_no_value():
    figures = parity_figures([{"prover/parity_num_steps": 50, "prover/parity_gap": 1.2}])
    assert figures["parity_step"] == Figure(None, None, None, 50)


def test_a_phase_of_an_older_version_has_no_figures():
    assert parity_figures([{"prover/reward/sneaky": 1.0}]) == {}


def test_a_role_that_loses_accuracy_at_the_end_has_a_negative_late_change():
    helpful = [
        0.1,
        0.2,
        0.5,
        0.6,
        0.8,
        0.8,
        0.7,
        0.6,
        0.4,
        0.2,
    ]  # fifths of two steps: the middle one is .8, the last .3
    lines = [{"step": step, "prover/accuracy/helpful": value} for step, value in enumerate(helpful, start=1)]
    lines += [{"step": 1, "prover/accuracy/sneaky": 0.5}, {"step": None, "prover/num_cut": 0}]  # too few steps
    figures = late_changes(lines)
    assert list(figures) == ["late_change/helpful"]
    assert figures["late_change/helpful"].value == pytest.approx(-0.5)
    assert figures["late_change/helpful"].n == 2


@pytest.fixture
def pool(tmp_path):
    """Write a pool file of (problem, text, whether it is correct, changed columns)."""

    def write(name, rows):
        path = tmp_path / f"{name}.parquet"
        pd.DataFrame([solution(problem, text, int(ok), **changes) for problem, text, ok, changes in rows]).to_parquet(
            path
        )
        return path

    return write


def test_texts_of_the_same_problem_are_compared(pool):
    base = pool("base", [("p", "one", True, {}), ("p", "wrong", False, {}), ("q", "two", True, {})])
    helpful = pool(
        "helpful",
        [
            ("p", " one\n", True, {}),  # known, up to white space
            ("p", "two", True, {}),  # known for another problem only
            ("p", "two", True, {"sample": 1}),  # counted once
            ("q", "three", True, {}),
            ("q", "cut", False, {"outcome": "TRUNCATED"}),  # failed
        ],
    )
    sneaky = pool("sneaky", [("p", "wrong", False, {}), ("p", "two", True, {})])
    figures = new_text_figures([base], {Role.HELPFUL: helpful, Role.SNEAKY: sneaky})
    assert {name: (figure.value, figure.n) for name, figure in figures.items()} == {
        "new_texts/helpful_correct": (pytest.approx(2 / 3), 3),
        "new_texts/helpful_incorrect": (None, 0),
        "new_texts/sneaky_correct": (1.0, 1),  # both roles of a round may write a text first
        "new_texts/sneaky_incorrect": (0.0, 1),
    }


def row(step, problem, wrong, accepted, checker="labels", role="helpful"):
    return WrongSolutions(step, problem, checker, role, wrong, accepted)._asdict()


def test_shares_before_and_early_and_their_difference():
    """Before: 1 of 2 + 0 of 6. Early: 3 of 4 + 2 of 4 + 1 of 4."""
    rows = [row(0, "a", 2, 1), row(0, "b", 6, 0), row(1, "c", 4, 3), row(1, "d", 4, 2), row(3, "a", 4, 1)]
    (found,) = false_positive_rises(rows)
    assert (found.before.value, found.before.n) == (1 / 8, 8)
    assert (found.early.value, found.early.n) == (6 / 12, 12)
    assert found.rise.value == pytest.approx(3 / 8)
    assert found.rise.n == 4  # problems
    assert found.rise.low < 3 / 8 < found.rise.high


def test_checkers_and_roles_are_apart():
    rows = [row(0, "a", 4, 1), row(1, "a", 4, 2, checker="verifier"), row(1, "a", 4, 3, role="sneaky")]
    found = {(one.checker, one.role): (one.before.value, one.early.value) for one in false_positive_rises(rows)}
    assert found == {
        ("labels", "helpful"): (0.25, None),
        ("labels", "sneaky"): (None, 0.75),
        ("verifier", "helpful"): (None, 0.5),
    }
    assert all(one.rise.value is None for one in false_positive_rises(rows))


@pytest.mark.parametrize(
    ("num_steps", "share", "steps_per_batch", "last"),
    [(100, 0.15, 1, 14), (50, 0.15, 1, 7), (4, 0.15, 1, 1), (40, 0.15, 8, 8), (10, 0.9, 1, 8)],
)
def test_steps_that_count_as_early(num_steps, share, steps_per_batch, last):
    assert last_early_step(num_steps, share, steps_per_batch) == last


def simulated_training(rng, before: float, early: float) -> list[dict]:
    """
    Batches of 8 problems with 8 solutions, 6 of them wrong, of a phase with 50 steps; acceptance varies by problem.
    """

    def batch(step: int, rate: float) -> list[dict]:
        rates = rng.beta(3 * rate, 3 * (1 - rate), size=8)  # correlation .25 within a problem
        return [row(step, f"{step}-{index}", 6, int(rng.binomial(6, p))) for index, p in enumerate(rates)]

    return batch(0, before) + [one for step in range(1, 8) for one in batch(step, early)]


def share_of_alarms(before: float, early: float) -> float:
    rng = np.random.default_rng(0)
    found = [false_positive_rises(simulated_training(rng, before, early))[0].rise for _ in range(100)]
    return float(np.mean([is_collapse_expected(rise, 0.3) for rise in found]))


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_a_stationary_training_rarely_alarms(rate):
    # At a true rate of .01, more than 5 of 100 phases alarm with probability .0005.
    assert share_of_alarms(rate, rate) <= 0.05


def test_a_rise_well_above_the_limit_is_seen():
    assert share_of_alarms(0.1, 0.6) >= 0.9
    assert share_of_alarms(0.1, 0.2) <= 0.05  # a harmless checker's rise


def test_few_solutions_raise_no_alarm():
    (found,) = false_positive_rises([row(0, "a", 1, 0), row(1, "b", 2, 1)])
    assert found.rise.value == 0.5
    assert not is_collapse_expected(found.rise, 0.3)
