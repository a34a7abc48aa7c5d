"""The monitors of a prover's training."""

import pytest
from transformers import TrainerControl, TrainerState

from pvg_hf import load_recipe
from pvg_hf.core.roles import GAME_ROLES
from pvg_hf.game.honest_solutions import HonestSide
from pvg_hf.game.monitors import Monitors
from pvg_hf.trainers.prover.config import ProverGRPOConfig

HELPFUL = {"accuracy/helpful": 0.5, "score/helpful_correct": 1.0}
SNEAKY = {"accuracy/sneaky": 0.5, "score/sneaky_incorrect": 1.0}


@pytest.fixture
def make_monitors(tmp_path):
    def make(labels: str = "clean", *, has_noisy_labels: bool = False) -> Monitors:
        task = {"name": "tests.support.recall_task:RecallTask"}
        stopping = {"rule": "parity", "parity_confidence": 0.5, "labels": labels}
        recipe = load_recipe({"output_dir": str(tmp_path), "device": "cpu", "task": task, "stopping": stopping})
        args = ProverGRPOConfig(str(tmp_path), acceptance_threshold=0.0, use_cpu=True)
        return Monitors(
            recipe,
            lambda kind, message: None,
            args,
            GAME_ROLES,
            HonestSide(),
            tmp_path,
            has_noisy_labels=has_noisy_labels,
            can_recover=True,
        )

    return make


def update(monitors: Monitors, step: int, logs: dict[str, float]) -> TrainerControl:
    """Give the monitors a step's figures, at which a checkpoint is due."""
    control = TrainerControl(should_save=True)
    monitors.on_log(None, TrainerState(global_step=step), control, logs=logs)
    return control


def test_the_first_reason_ends_the_training_without_a_checkpoint(make_monitors):
    monitors = make_monitors()
    control = update(monitors, 40, HELPFUL | {**SNEAKY, "score/sneaky_incorrect": -9.0})
    assert (monitors.reason, control.should_training_stop, control.should_save) == (None, False, True)
    control = update(monitors, 41, HELPFUL | {**SNEAKY, "score/sneaky_incorrect": 900.0})
    assert (monitors.reason, control.should_training_stop, control.should_save) == ("parity at step 41", True, False)


def test_monitors_of_a_resumed_training_get_the_steps_before_its_checkpoint(make_monitors):
    """Without the first step, there would be no mean of the helpful role."""
    monitors, control = make_monitors(), TrainerControl()
    state = TrainerState(global_step=1, log_history=[{"step": 40, **HELPFUL}])
    monitors.on_train_begin(None, state, control)
    assert (monitors.reason, control.should_training_stop) == (None, False)
    assert update(monitors, 41, SNEAKY).should_training_stop
    assert monitors.reason == "parity at step 41"


@pytest.mark.parametrize(("labels", "reason"), [("observed", None), ("clean", "parity at step 40")])
def test_parity_is_recorded_by_clean_labels_and_decided_by_those_of_the_recipe(labels, reason, make_monitors):
    monitors = make_monitors(labels, has_noisy_labels=True)
    observed = {"observed/accuracy/helpful": 0.5, "observed/score/helpful_correct": 9.0}
    update(monitors, 40, HELPFUL | SNEAKY | observed | {"observed/score/sneaky_incorrect": 1.0})
    assert monitors.reason == reason
    assert monitors.parity.figures()["parity_step"] == 40
