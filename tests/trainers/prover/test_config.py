"""Settings of `ProverGRPOTrainer`: defaults, names, and refused values."""

import pytest
from transformers import HfArgumentParser

from pvg_hf.trainers.prover.config import ProverGRPOConfig
from tests.support.prover_training import prover_args


def test_defaults_have_these_values(tmp_path):
    args = ProverGRPOConfig(str(tmp_path), use_cpu=True, report_to="none")
    assert (args.beta, args.scale_rewards, args.reward, args.logging_steps) == (0.05, "none", "standardized_src", 1)
    assert not args.bf16
    assert not args.gradient_checkpointing
    assert not args.activation_checkpointing


@pytest.mark.parametrize("name", ["gradient_checkpointing", "activation_checkpointing"])
@pytest.mark.parametrize("value", [True, False])
def test_checkpointing_may_be_set_by_either_name(name, value, tmp_path):
    args = prover_args(tmp_path, **{name: value})
    assert args.gradient_checkpointing is args.activation_checkpointing is value


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beta": None}, "`beta` is None"),
        ({"beta": -0.1}, "`beta` is -0.1"),
        ({"scale_rewards": "groups"}, "`scale_rewards` is `groups`"),
        ({"max_truncated_share": 1.5}, "`max_truncated_share` is 1.5"),
    ],
)
def test_wrong_settings_are_refused(settings, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        prover_args(tmp_path, **settings)


@pytest.mark.parametrize(
    ("settings", "num_steps"),
    [
        ({"num_iterations": 2}, 2),
        ({"steps_per_generation": 3, "per_device_train_batch_size": 8, "generation_batch_size": None}, 3),
        ({"gradient_accumulation_steps": 2}, 1),
        ({"steps_per_generation": 2, "gradient_accumulation_steps": 4}, 1),  # two batches a step
    ],
)
def test_steps_per_batch_follow_from_the_settings(settings, num_steps, tmp_path):
    assert prover_args(tmp_path, **settings).steps_per_batch == num_steps


@pytest.mark.parametrize(
    ("settings", "is_even"),
    [
        ({"save_steps": 1}, False),
        ({"save_steps": 5}, False),
        ({"save_steps": 4}, True),
        ({"save_steps": 0.5, "max_steps": 6}, False),  # every 3 steps
        ({"save_steps": 0.5, "max_steps": 7}, True),  # every 4
        ({"save_steps": 0.5, "max_steps": -1}, True),  # not known yet
        ({"save_steps": 1, "save_strategy": "no"}, True),
        ({"save_steps": 1, "save_strategy": "epoch"}, True),
    ],
)
def test_checkpoints_fall_between_batches_or_not(settings, is_even, tmp_path):
    found = prover_args(tmp_path, **{"num_iterations": 2, "save_strategy": "steps", **settings}).find_uneven_saving()
    assert (found is None) == is_even


def test_settings_are_parsed_from_a_command_line():
    arguments = ["--output_dir", "out", "--report_to", "none", "--reward", "cgc", "--reward_options", '{"floor": -3}']
    (args,) = HfArgumentParser(ProverGRPOConfig).parse_args_into_dataclasses(arguments)
    assert (args.reward, args.reward_options, args.beta) == ("cgc", {"floor": -3}, 0.05)
