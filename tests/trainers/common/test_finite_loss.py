import pytest
from transformers import TrainerControl, TrainerState, TrainingArguments

from pvg_hf.trainers.common.step_checks import FiniteLossCallback


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        ({"loss": float("nan")}, "The loss of step 3 is nan"),
        ({"loss": float("inf")}, "The loss of step 3 is inf"),
        ({"loss": 1.0, "grad_norm": float("nan")}, "The gradient's norm of step 3 is nan"),
    ],
)
def test_figure_that_is_not_finite_ends_training(figures, message, tmp_path):
    args = TrainingArguments(str(tmp_path))
    with pytest.raises(FloatingPointError, match=message):
        FiniteLossCallback().on_log(args, TrainerState(global_step=3), TrainerControl(), logs=figures)


def test_finite_figures_pass(tmp_path):
    args, callback = TrainingArguments(str(tmp_path)), FiniteLossCallback()
    for figures in ({"loss": 1.0, "grad_norm": 2.0}, {"train_runtime": 1.0}, None):
        callback.on_log(args, TrainerState(global_step=3), TrainerControl(), logs=figures)


def test_infinite_gradient_in_float16_is_left_to_the_scaler(tmp_path):
    args = TrainingArguments(str(tmp_path))
    args.fp16 = True
    figures = {"loss": 1.0, "grad_norm": float("inf")}
    FiniteLossCallback().on_log(args, TrainerState(global_step=3), TrainerControl(), logs=figures)
