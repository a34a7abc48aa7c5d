"""Figures of the prover phase."""

from pvg_hf.core.figure import Figure
from pvg_hf.evaluation.prover_figures import parity_figures


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
