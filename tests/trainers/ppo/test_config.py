"""Settings of `ProverPPOTrainer`: defaults, names, and refused values."""

import pytest
from transformers import HfArgumentParser

from pvg_hf.trainers.ppo.config import ProverPPOConfig
from tests.support.ppo_training import ppo_args


def test_defaults_have_these_values(tmp_path):
    args = ProverPPOConfig(str(tmp_path), use_cpu=True, report_to="none")
    assert (args.beta, args.num_iterations, args.gamma, args.gae_lambda) == (0.05, 4, 1.0, 0.95)
    assert (args.vf_coef, args.cliprange_value, args.target_kl) == (0.1, 0.2, None)
    assert args.whiten_advantages
    assert args.disable_dropout


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gamma": 1.1}, "`gamma` is 1.1"),
        ({"gae_lambda": -0.1}, "`gae_lambda` is -0.1"),
        ({"vf_coef": 0.0}, "`vf_coef` is 0.0"),
        ({"num_iterations": 0}, "`num_iterations` is 0"),
        ({"cliprange_value": 0.0}, "`cliprange_value` is 0.0"),
        ({"critic_learning_rate": -1e-3}, "`critic_learning_rate` is -0.001"),
        ({"target_kl": 0.0}, "`target_kl` is 0.0"),
        ({"beta": 0.1, "kl_coef": 0.2}, "`beta` is 0.1 and `kl_coef` is 0.2, two names"),
        ({"kl_coef": -0.2}, "`beta` is -0.2"),
        ({"loss_type": "vespo"}, "`loss_type` is `vespo`, but .* `dapo` or"),
        ({"loss_type": "cispo"}, "`loss_type` is `cispo`"),
        ({"importance_sampling_level": "sequence"}, "`importance_sampling_level` is `sequence`.*`token`"),
        ({"multi_objective_aggregation": "normalize_then_sum"}, "`multi_objective_aggregation` is"),
        ({"off_policy_mask_threshold": 0.1}, "`off_policy_mask_threshold` is `0.1`"),
        ({"scale_rewards": "group"}, "`scale_rewards` is `group`"),
        ({"target_kl": 0.1, "fp16": True, "bf16": False}, "`target_kl` and `fp16`"),
    ],
)
def test_wrong_settings_are_refused(settings, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        ppo_args(tmp_path, **settings)


def test_the_former_name_of_beta_still_sets_it(tmp_path):
    assert ppo_args(tmp_path, kl_coef=0.2).beta == 0.2
    assert ppo_args(tmp_path, kl_coef=0.2, beta=0.2).beta == 0.2


def test_settings_are_parsed_from_a_command_line():
    arguments = ["--output_dir", "out", "--report_to", "none", "--gae_lambda", "0.9", "--whiten_advantages", "false"]
    (args,) = HfArgumentParser(ProverPPOConfig).parse_args_into_dataclasses(arguments)
    assert (args.gae_lambda, args.whiten_advantages, args.num_iterations) == (0.9, False, 4)
