import re

import pytest
from transformers import TrainerControl, TrainerState, TrainingArguments

from pvg_hf.core.integrity import read_json_lines
from pvg_hf.game import context
from pvg_hf.game.training import BestStepCallback, PhaseProgress, ProgressLog, is_recorded, newest_checkpoint
from tests.support.game_runs import check_same_so_far


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("loss", True),
        ("accuracy/helpful", True),
        ("step", False),
        ("epoch", False),
        ("profiling/Time/x", False),
        ("train_loss", False),
        ("train_runtime", False),
    ],
)
def test_figures_that_depend_on_time_are_not_recorded(key, expected):
    assert is_recorded(key) == expected


def test_checkpoints_are_ordered_by_number(tmp_path):
    assert newest_checkpoint(tmp_path / "nowhere") is None
    (tmp_path / "checkpoint-9").mkdir()
    assert newest_checkpoint(tmp_path) is None


@pytest.mark.game
def test_variables_of_accelerate_change_no_training(play_phase, reference, monkeypatch, caplog):
    variables = {"ACCELERATE_MIXED_PRECISION": "bf16", "ACCELERATE_DYNAMO_BACKEND": "inductor"}
    for name, value in {**variables, "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "4"}.items():
        monkeypatch.setenv(name, value)
    check_same_so_far(play_phase("verifier", 0), reference)
    for name, value in variables.items():
        assert caplog.text.count(f"{name}={value} is ignored") == 1


def test_steps_are_recorded_with_all_documented_figures(reference):
    line = read_json_lines(reference.prover(0) / "metrics.jsonl")[0]
    assert {"game_step", "phase", "round", "step", "prover/loss", "prover/kl", "prover/valid_sneaky"} <= line.keys()
    assert not {"prover/epoch", "prover/step_time", "prover/num_tokens"} & line.keys()


@pytest.mark.game
@pytest.mark.parametrize("phase", ["verifier", "prover"])
def test_progress_bar_is_called_after_the_phase(phase, play_phase, beginnings, monkeypatch):
    monkeypatch.setattr(context, "shows_progress", lambda recipe: True)  # as on a terminal
    play_phase(phase, 0, **{f"{phase}__max_steps": 1})
    ((trainer, _),) = beginnings
    bars = [callback for callback in trainer.callback_handler.callbacks if isinstance(callback, PhaseProgress)]
    assert [bar.name for bar in bars] == [f"round-000/{phase}"]


@pytest.mark.game
def test_progress_is_logged_where_no_bar_is_drawn(play_phase, monkeypatch, caplog):
    monkeypatch.setattr(ProgressLog, "WAIT", 0.0)
    with caplog.at_level("INFO", logger="pvg_hf"):
        play_phase("verifier", 0, verifier__max_steps=3, logging={"report": False})
    lines = [line for line in caplog.messages if line.startswith("round-000/verifier: step ")]
    assert [line.partition(";")[0] for line in lines] == [f"round-000/verifier: step {step} of 3" for step in (1, 2)]
    assert all(re.search(r"; about .+ left$", line) for line in lines)


# Values at steps 10, 20, ...: the training ends after `patience` of them in a row that are not below the least.
VALIDATIONS = [
    ([0.9, 0.8, 0.7, 0.6], 1, None),
    ([0.9, 0.8, 0.85, 0.7], 1, 3),
    ([0.9, 0.8, 0.8, 0.7], 1, 3),
    ([0.9, 0.8, 0.85, 0.82, 0.7], 2, 4),
    ([0.9, 0.8, 0.85, 0.7, 0.75, 0.71], 2, 6),
    ([0.9, 0.95, 0.99], None, None),
]


@pytest.mark.parametrize("is_resumed", [False, True])
@pytest.mark.parametrize("is_loss", [True, False])
@pytest.mark.parametrize(("losses", "patience", "last"), VALIDATIONS)
def test_a_training_ends_after_validations_without_a_better_one(losses, patience, last, is_loss, is_resumed, tmp_path):
    args = TrainingArguments(
        str(tmp_path), metric_for_best_model="eval_x", greater_is_better=not is_loss, use_cpu=True
    )
    state, callback, ended = TrainerState(eval_steps=10), BestStepCallback(patience), None
    for number, loss in enumerate(losses, start=1):
        value = loss if is_loss else -loss
        if is_resumed:  # what a new process knows is in the trainer's state
            callback = BestStepCallback(patience)
            callback.on_train_begin(args, state, TrainerControl())
        state.global_step, control = 10 * number, TrainerControl(should_save=True)
        callback.on_evaluate(args, state, control, {"eval_x": value})
        assert control.should_save != control.should_training_stop
        if control.should_training_stop:
            ended = number
            break
        if loss < min(losses[: number - 1], default=1.0):  # as the trainer does after its callbacks
            state.best_metric, state.best_global_step = value, state.global_step
    assert ended == last
