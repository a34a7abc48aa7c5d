"""`benchmarks/watchdog_alarms.py` on fewer phases: how often a watchdog is wrong, and what it sees."""

import numpy as np
import pytest
import torch

from benchmarks.watchdog_alarms import (
    GROUPS,
    SIZE,
    THRESHOLD,
    WITH_CHANGE,
    WITHOUT_CHANGE,
    alarm_rate,
    draw_solutions,
    make_phase,
    step_figures,
)
from pvg_hf.core.seeding import derive_rng
from pvg_hf.trainers.prover.metrics import RoleSignals, role_metrics

pytestmark = pytest.mark.nightly

# Where the false-alarm rate of a phase is .05, more than 10 of 100 phases have one with a probability of .011.
NUM_PHASES, MOST_ALARMS = 100, 10


def test_simulated_figures_are_those_of_a_training_step():
    is_correct, scores = draw_solutions(
        make_phase(3, sneaky_incorrect=np.array([0.5, 0.9, 0.0])), derive_rng("figures")
    )
    sneaky = torch.arange(2 * GROUPS * SIZE) >= GROUPS * SIZE
    for place, figures in enumerate(step_figures(is_correct, scores)):
        correct = torch.tensor(is_correct[place].flatten())
        signals = RoleSignals(
            scores=torch.tensor(scores[place].flatten()),
            correct=correct,
            answered=torch.ones_like(correct),
            failed=torch.zeros_like(correct),
            sneaky=sneaky,
            truncated=torch.zeros_like(correct),
        )
        expected = role_metrics(signals, torch.zeros(len(correct)), THRESHOLD)
        watched = ("valid_sneaky", "exploit_rate", "score_gap", "score_correctness_correlation")
        assert figures == pytest.approx({name: expected[name] for name in watched if name in expected}, abs=1e-5)


@pytest.mark.parametrize(
    ("kind", "name"), [case for case in WITHOUT_CHANGE if case[1] != "steps that hardly change"], ids=lambda part: part
)
def test_phases_without_a_change_raise_hardly_any_alert(kind, name):
    found = alarm_rate(kind, WITHOUT_CHANGE[kind, name], 50, NUM_PHASES, 0, name)
    assert found.value * NUM_PHASES <= MOST_ALARMS


@pytest.mark.parametrize(
    ("kind", "name"),
    [("goodharting", "trend of 1"), ("goodharting", "reversal"), ("sneaky_collapse", "collapse to 0")],
)
def test_changes_are_seen(kind, name):
    """The bound of 12 alerts in 20 phases is missed with a probability of 1e-5 at a power of .9."""
    assert alarm_rate(kind, WITH_CHANGE[kind, name], 50, 20, 0, name).value >= 0.6
