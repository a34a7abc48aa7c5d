"""Undocumented parts of TRL, transformers, PEFT and accelerate that `ProverPPOTrainer` and its critic rely on."""

import copy
import inspect

import pytest
import torch
from accelerate import Accelerator
from peft import LoraConfig, PeftModel, get_peft_model
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM, LlamaForTokenClassification, Trainer
from trl import GRPOConfig, GRPOTrainer
from trl.trainer.utils import disable_dropout_in_model, shuffle_sequence_dict, split_tensor_dict

SIZES = {
    "vocab_size": 12,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (GRPOTrainer._compute_loss, ["self", "model", "inputs"]),
        (GRPOTrainer.training_step, ["self", "model", "inputs", "num_items_in_batch"]),
        (Trainer.create_optimizer, ["self", "model"]),
        (Trainer.get_decay_parameter_names, ["self", "model"]),
        (Trainer._save, ["self", "output_dir", "state_dict"]),
        (Trainer._load_from_checkpoint, ["self", "resume_from_checkpoint", "model"]),
        (Trainer._load_best_model, ["self"]),
        (Accelerator.reduce, ["self", "tensor", "reduction", "scale"]),
        (Accelerator.no_sync, ["self", "model"]),
        (disable_dropout_in_model, ["model"]),
    ],
)
def test_external_functions_have_these_signatures(function, parameters):
    assert list(inspect.signature(function).parameters) == parameters


def test_log_probabilities_are_computed_with_these_arguments():
    parameters = list(inspect.signature(GRPOTrainer._get_per_token_logps_and_entropies).parameters)
    assert parameters[:6] == ["self", "model", "input_ids", "attention_mask", "logits_to_keep", "batch_size"]
    source = inspect.getsource(GRPOTrainer._get_per_token_logps_and_entropies)
    assert "return logps, entropies, aux_loss" in source
    # The loss calls it once, and first: its last result is that of the current policy.
    loss = inspect.getsource(GRPOTrainer._compute_loss)
    assert loss.count("self._get_per_token_logps_and_entropies(") == 1


def test_a_batch_holds_these_tensors():
    source = inspect.getsource(GRPOTrainer._generate_and_score_completions)
    for name in ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "num_items_in_batch"):
        assert f'"{name}": {name}' in source
    for name in ("old_per_token_logps", "ref_per_token_logps", "tool_mask"):
        assert f'output["{name}"] = {name}' in source
    assert 'self._logs["advantages"].extend(all_process_advantages.tolist())' in source
    assert "rewards = (rewards_per_func * self.reward_weights.to(device).unsqueeze(0)).nansum(dim=1)" in source
    assert 'padding_side="left"' in source


def test_log_probabilities_are_left_out_if_a_batch_is_read_once():
    source = inspect.getsource(GRPOTrainer._generate_and_score_completions)
    assert "generate_every = self.args.steps_per_generation * self.num_iterations" in source
    assert "if self.args.gradient_accumulation_steps % generate_every != 0 or (" in source


def test_advantages_may_be_of_tokens_and_the_kl_goes_by_beta():
    source = inspect.getsource(GRPOTrainer._compute_loss)
    assert "if advantages.dim() == 1:\n            advantages = advantages.unsqueeze(1)" in source
    assert source.count("if self.beta != 0.0:") == 3
    normalizer = 'normalizer = inputs["num_items_in_batch"].clamp(min=1.0) / self.accelerator.num_processes'
    assert normalizer in source
    assert "self.current_gradient_accumulation_steps / self.args.steps_per_generation" in source


def test_a_batch_is_generated_every_few_steps():
    prepare = inspect.getsource(GRPOTrainer._prepare_inputs)
    assert "generate_every = self.args.steps_per_generation * self.num_iterations" in prepare
    assert "if self._step % generate_every == 0 or self._buffered_inputs is None:" in prepare
    assert "self._step += 1" in inspect.getsource(GRPOTrainer.training_step)


def test_tensors_of_a_batch_stay_together():
    batch = {"ids": torch.arange(4), "values": torch.arange(8).view(4, 2), "count": torch.tensor(3)}
    for part in split_tensor_dict(shuffle_sequence_dict(batch), 2):
        assert part["values"].tolist() == [[2 * i, 2 * i + 1] for i in part["ids"].tolist()]
        assert part["count"] == 3


def test_a_step_without_gradients_changes_no_weight():
    weight = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.AdamW([weight], lr=0.1, weight_decay=0.1)
    weight.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    before, state = weight.clone(), copy.deepcopy(optimizer.state_dict()["state"])
    optimizer.step()
    assert weight.equal(before)
    assert all(torch.equal(state[0][name], value) for name, value in optimizer.state_dict()["state"][0].items())
    loop = inspect.getsource(Trainer._run_epoch)
    assert loop.index("on_pre_optimizer_step") < loop.index("self.optimizer.step()") < loop.index("on_optimizer_step")
    assert loop.index("self._clip_grad_norm(model)") < loop.index("on_pre_optimizer_step")
    assert "model.zero_grad()" in loop


def test_adapters_one_level_below_a_checkpoint_are_taken_for_the_policys():
    """Therefore a critic's adapter is stored two levels below."""
    source = inspect.getsource(Trainer._load_from_checkpoint)
    assert "for folder_name in os.listdir(resume_from_checkpoint)" in source
    assert "model.load_adapter(peft_id, subdir_name" in source


def test_the_best_model_is_read_from_its_checkpoint():
    source = inspect.getsource(Trainer._load_best_model)
    assert "os.path.join(self.state.best_model_checkpoint, SAFE_WEIGHTS_NAME)" in source
    assert "_load_from_checkpoint" not in source  # so that a critic is read there, too, on its own


def test_a_copy_shares_the_listed_weights_and_drops_its_adapters():
    model = get_peft_model(LlamaForCausalLM(LlamaConfig(**SIZES)), LoraConfig(r=2, target_modules="all-linear"))
    own = copy.deepcopy(model, memo={id(parameter): parameter for parameter in model.parameters()})
    base = own.unload()
    assert not isinstance(base, PeftModel)
    assert not any("lora_" in name for name, _ in base.named_parameters())
    assert {id(p) for p in base.parameters()} <= {id(p) for p in model.parameters()}
    assert sum("lora_" in name for name, _ in model.named_parameters()) > 0
    again = get_peft_model(base.base_model, LoraConfig(r=2, target_modules=["q_proj"]))
    assert any("lora_" in name for name, _ in again.named_parameters())


def test_a_token_classifier_is_a_body_a_dropout_and_a_head():
    model = LlamaForTokenClassification(LlamaConfig(num_labels=1, **SIZES))
    assert [name for name, _ in model.named_children()] == ["model", "dropout", "score"]
    assert model.base_model_prefix == "model"
    assert isinstance(model.score, nn.Linear)
    assert isinstance(model.dropout, nn.Dropout)
    assert model(input_ids=torch.tensor([[3, 4]])).logits.shape == (1, 2, 1)
    assert "pad_token_id" not in inspect.getsource(type(model).forward)


def test_defaults_that_are_changed_or_explained():
    fields = GRPOConfig.__dataclass_fields__
    names = ("num_iterations", "disable_dropout", "epsilon", "importance_sampling_level", "off_policy_mask_threshold")
    assert [fields[name].default for name in names] == [1, False, 0.2, "token", None]
