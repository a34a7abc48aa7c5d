"""Parts of TRL that `ScoreVerifierTrainer` relies on and the prover's trainer does not."""

import inspect

import pytest
from transformers import Trainer
from trl import GRPOConfig, GRPOTrainer


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (GRPOTrainer._calculate_rewards, ["self", "inputs", "prompts", "completions", "completion_ids_list"]),
        (GRPOTrainer._log_completion_extra, ["self", "column", "values"]),
        (Trainer._save, ["self", "output_dir", "state_dict"]),
    ],
)
def test_external_functions_have_these_signatures(function, parameters):
    assert list(inspect.signature(function).parameters) == parameters


def test_a_row_without_any_reward_has_no_effect():
    source = inspect.getsource(GRPOTrainer._generate_and_score_completions)
    assert "unscorable_mask = torch.isnan(rewards_per_func).all(dim=1)" in source
    assert "advantages = torch.nan_to_num(advantages, nan=0.0)" in source


def test_grpo_config_has_these_settings():
    fields = GRPOConfig.__dataclass_fields__
    wanted = {"num_generations", "temperature", "max_completion_length", "save_total_limit", "metric_for_best_model"}
    assert wanted | {"greater_is_better"} <= fields.keys()
