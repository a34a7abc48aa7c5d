"""Figures of the prover phase."""

import pytest

from pvg_hf.core.figure import Figure
from pvg_hf.evaluation.prover_figures import late_changes, parity_figures


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
