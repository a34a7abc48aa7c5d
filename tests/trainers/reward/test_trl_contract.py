"""Undocumented parts of TRL, transformers and PEFT that `NoisyRewardTrainer` relies on."""

import inspect

import pytest
from accelerate import Accelerator
from accelerate.data_loader import DataLoaderShard
from accelerate.utils import gather_object
from peft import LoraConfig
from transformers import LlamaForSequenceClassification, Trainer, TrainerState
from trl import RewardConfig, RewardTrainer
from trl.trainer.reward_trainer import DataCollatorForPreference


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (RewardTrainer._prepare_dataset, ["self", "dataset", "processing_class", "args", "dataset_name"]),
        (RewardTrainer._set_signature_columns_if_needed, ["self"]),
        (RewardTrainer.compute_loss, ["self", "model", "inputs", "return_outputs", "num_items_in_batch"]),
        (RewardTrainer.evaluate, ["self", "eval_dataset", "ignore_keys", "metric_key_prefix"]),
        (RewardTrainer.log, ["self", "logs", "start_time"]),
        (Trainer._get_train_sampler, ["self", "train_dataset"]),
        (
            Trainer.evaluation_loop,
            ["self", "dataloader", "description", "prediction_loss_only", "ignore_keys", "metric_key_prefix"],
        ),
        (gather_object, ["object"]),
    ],
)
def test_external_functions_have_these_signatures(function, parameters):
    assert list(inspect.signature(function).parameters) == parameters


def test_the_trainer_takes_these_arguments():
    parameters = list(inspect.signature(RewardTrainer.__init__).parameters)
    assert parameters[1:3] == ["model", "args"]
    assert {"train_dataset", "eval_dataset", "processing_class", "data_collator", "peft_config"} <= set(parameters)


def test_loss_is_a_mean_that_the_trainer_divides_by_the_accumulation_steps():
    assert RewardTrainer.loss_is_scaled_for_ga is False


def test_no_class_between_overrides_the_evaluation_loop():
    assert RewardTrainer.evaluation_loop is Trainer.evaluation_loop


def test_metrics_are_lists_by_mode_and_logged_as_means():
    assert 'self._metrics = {"train": defaultdict(list), "eval": defaultdict(list)}' in inspect.getsource(
        RewardTrainer.__init__
    )
    log = inspect.getsource(RewardTrainer.log)
    assert "sum(val) / len(val) for key, val in self._metrics[mode].items()" in log


def test_chosen_come_before_rejected():
    batch = DataCollatorForPreference(pad_token_id=0)(
        [
            {"chosen_ids": [1], "rejected_ids": [2], "margin": 0.5},
            {"chosen_ids": [3], "rejected_ids": [4], "margin": 1},
        ]
    )
    assert batch["input_ids"][:, 0].tolist() == [1, 3, 2, 4]
    assert batch["margin"].tolist() == [0.5, 1.0]


def test_the_arguments_have_these_fields():
    fields = RewardConfig.__dataclass_fields__
    assert fields["center_rewards_coefficient"].default is None
    assert fields["bf16"].default is None
    assert {"max_length", "model_init_kwargs", "trust_remote_code", "dataloader_num_workers"} <= fields.keys()


def test_an_evaluated_model_is_marked_as_prepared():
    """See `pvg_hf.trainers.common.distributed`."""
    source = inspect.getsource(Accelerator.prepare_model)
    assert 'if getattr(model, "_is_accelerate_prepared", False):' in source
    assert "model._is_accelerate_prepared = True" in source
    assert "self._models.append(model)" in source
    assert "self.model_wrapped = model" in inspect.getsource(Trainer._prepare_for_training)


def test_a_sampler_gets_its_epoch():
    """See `pvg_hf.trainers.reward.invariance`; on two processes the sampler is one level deeper."""
    source = inspect.getsource(DataLoaderShard.set_epoch)
    assert "self.batch_sampler.sampler.set_epoch(epoch)" in source
    assert "self.batch_sampler.batch_sampler.sampler.set_epoch(epoch)" in source


def test_the_state_has_its_step_and_epoch():
    assert TrainerState().global_step == 0
    assert {"epoch", "global_step"} <= vars(TrainerState()).keys()


def test_classifiers_name_their_backbone():
    assert LlamaForSequenceClassification.base_model_prefix == "model"


def test_adapters_name_what_is_saved_with_them():
    assert LoraConfig().modules_to_save is None
    assert "modules_to_save" in vars(LoraConfig())
