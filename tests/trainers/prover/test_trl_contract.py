"""
Undocumented parts of TRL, transformers, PEFT and accelerate that `ProverGRPOTrainer`, the sampler, the scorer and the
loading of models rely on.
"""

import ast
import inspect
import re
import textwrap
import warnings
from contextlib import AbstractContextManager

import pytest
import torch
from accelerate.utils import gather
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from transformers import (
    CONFIG_MAPPING,
    DynamicCache,
    GPT2Config,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Qwen2ForCausalLM,
    TrainingArguments,
)
from trl import GRPOConfig, GRPOTrainer, SFTConfig
from trl.generation.vllm_generation import VLLMGeneration
from trl.trainer.reward_trainer import suppress_seqcls_warning

from pvg_hf.game.context import PlayerLoader
from pvg_hf.models.prover_model import load_prover
from pvg_hf.sampling.sampler import DISTRIBUTION
from pvg_hf.trainers.common.distributed import silence_old_checkpointing_names
from pvg_hf.trainers.common.grpo import TAKEN_COLUMNS


def _reward(completions, **columns):
    return [0.0] * len(completions)


@pytest.fixture(scope="module")
def trainer(tiny_prover, tmp_path_factory) -> GRPOTrainer:
    """TRL's own trainer of a fully trained model."""
    settings = {"use_cpu": True, "bf16": False, "activation_checkpointing": False, "report_to": "none", "beta": 0.1}
    return GRPOTrainer(
        str(tiny_prover),
        reward_funcs=[_reward],
        args=GRPOConfig(str(tmp_path_factory.mktemp("contract")), num_generations_eval=3, **settings),
        train_dataset=Dataset.from_list([{"prompt": "Ana has 3 pens."}] * 8),
    )


# The trainer


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (GRPOTrainer._calculate_rewards, ["self", "inputs", "prompts", "completions", "completion_ids_list"]),
        (GRPOTrainer._log_completion_extra, ["self", "column", "values"]),
        (GRPOTrainer._generate, ["self", "prompts"]),
        (GRPOTrainer._generate_and_score_completions, ["self", "inputs"]),
        (GRPOTrainer._compute_loss, ["self", "model", "inputs"]),
        (
            GRPOTrainer._generate_single_turn,
            ["self", "prompt_ids", "images", "multimodal_fields", "num_generations", "has_tool_images"],
        ),
        (GRPOTrainer.log, ["self", "logs", "start_time"]),
        (gather, ["tensor"]),
    ],
)
def test_external_functions_have_these_signatures(function, parameters):
    assert list(inspect.signature(function).parameters) == parameters


def test_the_trainer_takes_these_arguments():
    parameters = list(inspect.signature(GRPOTrainer.__init__).parameters)
    assert parameters[1] == "model"
    assert {"reward_funcs", "args", "train_dataset", "eval_dataset", "processing_class", "peft_config"} <= set(
        parameters
    )


def test_the_trainer_has_these_attributes(trainer, tokenizer):
    assert trainer.reward_func_names == ["_reward"]
    assert (trainer.num_generations, trainer.num_generations_eval) == (8, 3)
    assert trainer.max_completion_length == trainer.args.max_completion_length
    assert trainer.eos_token_ids == [tokenizer.eos_token_id]
    assert {mode: dict(metrics) for mode, metrics in trainer._metrics.items()} == {"train": {}, "eval": {}}
    assert dict(trainer._pending_extra_logs) == {}
    assert trainer._logs["extra"] == {}
    assert len(trainer._logs["prompt"]) == 0


def test_rewards_are_gathered_in_place_of_every_process():
    source = inspect.getsource(GRPOTrainer._calculate_rewards)
    assert "rewards_per_func = gather(rewards_per_func)\n        return rewards_per_func" in source
    generate = inspect.getsource(GRPOTrainer._generate_and_score_completions)
    assert "rewards_per_func = self._calculate_rewards(inputs, prompts, completions, completion_ids_list)" in generate


def test_the_mask_of_tool_calls_is_only_for_the_loss():
    loss = inspect.getsource(GRPOTrainer._compute_loss)
    assert 'mask = completion_mask if "tool_mask" not in inputs else completion_mask * inputs["tool_mask"]' in loss
    assert loss.count("tool_mask") == 2
    assert 'normalizer = inputs["num_items_in_batch"].clamp(min=1.0)' in loss
    generate = inspect.getsource(GRPOTrainer._generate_and_score_completions)
    assert "num_items_in_batch = self.accelerator.gather(loss_mask.sum()).sum()" in generate


def test_reward_functions_get_columns_and_may_log(trainer):
    source = inspect.getsource(GRPOTrainer._calculate_rewards)
    assert 'reward_kwargs["log_extra"] = self._log_completion_extra' in source
    assert "prompts=prompts, completions=completions, completion_ids=completion_ids_list, **reward_kwargs" in source
    names = {"prompts", "completions", "completion_ids", *re.findall(r'\breward_kwargs\["(\w+)"\]', source)}
    assert names - {"environments"} <= TAKEN_COLUMNS  # the latter only with an environment factory
    trainer._log_completion_extra("role", ["helpful"])
    assert trainer._pending_extra_logs.pop("role") == ["helpful"]


def test_a_group_is_consecutive_rows(trainer):
    indices = list(trainer._get_train_sampler())
    groups = [set(indices[start : start + 8]) for start in range(0, len(indices), 8)]
    assert len(groups) == 8
    assert all(len(group) == 1 for group in groups)


def test_advantages_are_centred_by_group_and_scaled_by_name():
    source = inspect.getsource(GRPOTrainer._generate_and_score_completions)
    assert "advantages = rewards - mean_grouped_rewards" in source
    assert 'if self.scale_rewards != "none":' in source
    assert GRPOConfig.__dataclass_fields__["multi_objective_aggregation"].default == "sum_then_normalize"


def test_the_kl_reference_is_loaded_from_where_the_model_came(trainer, tiny_prover):
    assert trainer.model.config._name_or_path == str(tiny_prover)
    assert "self.ref_model = create_model_from_path(get_config_model_id(self.model.config)" in inspect.getsource(
        GRPOTrainer.__init__
    )
    initial = load_prover(tiny_prover)[0].state_dict()
    assert all(weight.equal(initial[name]) for name, weight in trainer.ref_model.state_dict().items())


def test_kl_is_logged_by_this_name():
    source = inspect.getsource(GRPOTrainer._compute_loss)
    assert 'if self.beta != 0.0:\n            self._metrics[mode]["kl"].append' in source


def test_the_kl_is_weighted_by_the_ratio_by_default():
    """It changes the gradient, not the value; `docs/reference/prover-trainer.md` says so."""
    assert GRPOConfig.__dataclass_fields__["use_bias_correction_kl"].default is True


def test_logprobs_of_any_engine_are_kept_and_corrected_for_with_vllm_only():
    generate = inspect.getsource(GRPOTrainer._generate_and_score_completions)
    assert 'output["sampling_per_token_logps"] = sampling_per_token_logps' in generate
    for name in ("mean", "max"):  # the trainer logs them under the same names
        assert f'"sampling/sampling_logp_difference/{name}"' in generate
    loss = inspect.getsource(GRPOTrainer._compute_loss)
    assert "if self.use_vllm and self.vllm_importance_sampling_correction" in loss
    assert loss.count('"sampling_per_token_logps"') == 1  # for `off_policy_mask_threshold`


def test_old_logprobs_are_left_out_if_the_loss_is_that_of_the_weights_that_sampled():
    generate = inspect.getsource(GRPOTrainer._generate_and_score_completions)
    assert "generate_every = self.args.steps_per_generation * self.num_iterations" in generate
    assert "if self.args.gradient_accumulation_steps % generate_every != 0 or (" in generate


# vLLM, which is not installed here


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (VLLMGeneration.generate, ["self", "prompts", "images", "num_generations", "profiler"]),
        (VLLMGeneration.sync_weights, ["self"]),
    ],
)
def test_vllms_engine_has_these_signatures(function, parameters):
    assert list(inspect.signature(function).parameters) == parameters


def test_vllms_engine_returns_completions_second():
    returned = "return prompt_ids, completion_ids, logprobs, logprob_token_ids"
    assert returned in inspect.getsource(VLLMGeneration.generate)


def _keywords_of_vllms_engine(function) -> set[str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    (call,) = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "VLLMGeneration"
    )
    names = {keyword.arg for keyword in call.keywords if keyword.arg is not None}
    return names | (set(DISTRIBUTION) if len(names) < len(call.keywords) else set())


def test_the_engine_of_a_game_has_the_settings_of_the_trainers():
    of_trl = _keywords_of_vllms_engine(GRPOTrainer.__init__)
    missing = of_trl - _keywords_of_vllms_engine(PlayerLoader._start_vllm)
    # The first three are positional. The number of rows follows the training batch, minting reports no
    # log-probabilities, and a model's own code is never run.
    assert missing == {"model", "accelerator", "processing_class", "max_num_seqs", "logprobs", "trust_remote_code"}


def test_the_adapter_is_merged_for_vllm_and_taken_out_again():
    source = inspect.getsource(VLLMGeneration._iter_named_params)
    assert source.index("model.merge_adapter()") < source.index("model.unmerge_adapter()")


# Its arguments


def test_defaults_that_are_changed_or_explained():
    fields = GRPOConfig.__dataclass_fields__
    assert (fields["beta"].default, fields["scale_rewards"].default, fields["loss_type"].default) == (
        0.0,
        "group",
        "dapo",
    )
    assert fields["gradient_checkpointing"].default is True
    assert fields["bf16"].default is None
    assert fields["logging_steps"].default == 10


def test_dictionaries_on_a_command_line():
    assert "model_init_kwargs" in GRPOConfig._VALID_DICT_FIELDS
    assert "self._VALID_DICT_FIELDS" in inspect.getsource(TrainingArguments.__post_init__)


@pytest.mark.parametrize("value", [True, False])
def test_the_new_name_of_checkpointing_is_mirrored_without_a_warning(value, tmp_path, recwarn):
    args = TrainingArguments(str(tmp_path), report_to="none", activation_checkpointing=value)
    assert args.gradient_checkpointing is value
    assert not [warning for warning in recwarn if warning.category is FutureWarning]


def test_the_old_name_of_checkpointing_warns(tmp_path):
    """`turn_off_gpu_defaults` need not set the new name once the old one no longer warns."""
    with pytest.warns(FutureWarning, match="`gradient_checkpointing` is deprecated"):
        TrainingArguments(str(tmp_path), report_to="none", gradient_checkpointing=True)


@pytest.mark.parametrize(
    "name", ["is_gradient_checkpointing", "gradient_checkpointing_enable", "gradient_checkpointing_disable"]
)
def test_models_warn_of_the_old_names_until_they_are_silenced(name, trainer):
    def use() -> None:
        member = getattr(trainer.ref_model, name)
        if callable(member):
            member()

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with pytest.warns(FutureWarning, match=f"`{name}` is deprecated"):
            use()
        warnings.simplefilter("error")
        silence_old_checkpointing_names()
        use()
    trainer.ref_model.activation_checkpointing_disable()


def test_supervised_fine_tuning_has_these_settings():
    fields = SFTConfig.__dataclass_fields__
    assert {
        "completion_only_loss",
        "max_length",
        "train_sampling_strategy",
        "activation_checkpointing",
    } <= fields.keys()


# The sampler


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (DynamicCache.batch_repeat_interleave, ["self", "repeats"]),
        (DynamicCache.batch_select_indices, ["self", "indices"]),
    ],
)
def test_the_cache_has_these_signatures(function, parameters):
    assert list(inspect.signature(function).parameters) == parameters


@torch.inference_mode()
def test_rows_of_a_cache_are_repeated_and_selected(trainer):
    model = load_prover(trainer.model.config._name_or_path)[0]
    cache = DynamicCache(config=model.config)
    model(input_ids=torch.tensor([[5, 6, 7], [8, 9, 10]]), past_key_values=cache, use_cache=True)
    keys = cache.layers[0].keys.clone()
    cache.batch_repeat_interleave(2)
    assert cache.layers[0].keys.equal(keys[[0, 0, 1, 1]])
    cache.batch_select_indices(torch.tensor([3, 0]))
    assert cache.layers[0].keys.equal(keys[[1, 0]])
    assert cache.get_seq_length() == 3


@pytest.mark.parametrize("model_class", [LlamaForCausalLM, Qwen2ForCausalLM])
def test_a_forward_takes_these_arguments(model_class):
    parameters = inspect.signature(model_class.forward).parameters
    needed = {"input_ids", "attention_mask", "position_ids", "past_key_values", "use_cache", "logits_to_keep"}
    assert needed <= parameters.keys()


def test_a_wrapped_model_still_names_its_end_tokens(tiny_prover):
    model = load_prover(tiny_prover)[0]
    wrapped = get_peft_model(model, LoraConfig(r=2, target_modules=["q_proj"]))
    assert wrapped.generation_config is model.generation_config
    assert wrapped.config is model.config


# Models and scores


def test_a_score_is_read_at_the_last_token_that_is_no_padding():
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=12, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, pad_token_id=0)
    config.num_labels = 1
    model = LlamaForSequenceClassification(config).eval()
    with torch.inference_mode():
        alone = model(input_ids=torch.tensor([[3, 4, 5]])).logits
        padded = model(
            input_ids=torch.tensor([[3, 4, 5, 0, 0]]), attention_mask=torch.tensor([[1, 1, 1, 0, 0]])
        ).logits
    torch.testing.assert_close(padded, alone, atol=1e-6, rtol=0)


def test_padding_goes_to_the_side_that_is_asked_for(tokenizer):
    assert "padding_side" in inspect.signature(PreTrainedTokenizerBase.pad).parameters
    batch = tokenizer.pad({"input_ids": [[5], [6, 7]]}, padding_side="right", return_tensors="pt")
    assert batch["input_ids"].tolist() == [[5, tokenizer.pad_token_id], [6, 7]]
    assert batch["attention_mask"].tolist() == [[1, 0], [1, 1]]


def test_the_warning_of_a_new_head_can_be_suppressed():
    assert isinstance(suppress_seqcls_warning(), AbstractContextManager)


def test_peft_keeps_a_trained_head_in_modules_to_save():
    config = LlamaConfig(vocab_size=12, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_labels=1)
    model = get_peft_model(
        LlamaForSequenceClassification(config),
        LoraConfig(r=2, target_modules="all-linear", exclude_modules=["score"], modules_to_save=["score"]),
    )
    heads = [name for name, _ in model.named_parameters() if "score" in name]
    assert [name.removeprefix("base_model.model.") for name in heads] == [
        "score.original_module.weight",
        "score.modules_to_save.default.weight",
    ]


def test_configurations_name_their_arguments():
    assert CONFIG_MAPPING["llama"] is LlamaConfig
    assert "hidden_size" in inspect.signature(LlamaConfig).parameters
    assert GPT2Config.attribute_map["hidden_size"] == "n_embd"
    assert issubclass(LlamaForCausalLM, PreTrainedModel)
    assert LlamaConfig(hidden_sise=3).hidden_sise == 3  # the silence that `make_model` breaks
