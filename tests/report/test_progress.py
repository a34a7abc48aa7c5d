"""The progress of a run."""

from dataclasses import replace

import pytest

from pvg_hf.report.statements import describe_progress
from pvg_hf.run.read import load_run


@pytest.mark.parametrize(
    ("num_finished", "sentence"),
    [
        (1, "Unfinished: the run is in the prover phase (round 1 of rounds 0-2, step 35 of 40)."),
        (3, "Finished: 3 rounds played and evaluated."),
    ],
)
def test_progress_of_a_run_is_reported(run_template, num_finished, sentence):
    assert describe_progress(load_run(run_template(num_finished))) == sentence


@pytest.mark.parametrize(
    ("num_events", "sentence"),
    [
        (0, "Unfinished: no phase of 3 rounds has begun."),
        (1, "Unfinished: the run has finished the bootstrap phase (before round 0)."),
        (4, "Unfinished: the run has finished the mint phase (round 0 of rounds 0-2)."),
    ],
)
def test_the_last_event_determines_the_phase(run_template, num_events, sentence):
    run = load_run(run_template(1))
    assert describe_progress(replace(run, events=run.events[:num_events])) == sentence


def test_an_alert_is_not_a_phase(run_template):
    run = load_run(run_template(1))
    assert run.events[-1]["event"] == "alert"
    assert "round 1" in describe_progress(run)
