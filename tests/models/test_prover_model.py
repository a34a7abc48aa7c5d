import json
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from peft import AutoPeftModelForCausalLM, PeftModel, get_peft_model
from peft.tuners.lora import LoraLayer
from transformers import AutoConfig, AutoModelForCausalLM, LlamaForCausalLM, PreTrainedModel

from pvg_hf.config.player_sections import LoraConfig
from pvg_hf.models.prover_model import (
    kept_base,
    load_causal_lm,
    load_prover,
    lora_for_prover,
    merge_adapter,
    merged_adapter,
)
from pvg_hf.models.sources import load_tokenizer

TEXT = "Ana has 3 pens."


@torch.inference_mode()
def _logits(model, tokenizer) -> torch.Tensor:
    return model.eval()(**tokenizer(TEXT, return_tensors="pt")).logits


def _with_adapter(base) -> PeftModel:
    """Add an adapter that changes the outputs."""
    torch.manual_seed(0)
    model = get_peft_model(base, lora_for_prover(LoraConfig(r=2)))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_()
    return model


def test_a_full_model_is_loaded_in_float32(tiny_prover):
    model, tokenizer = load_prover(tiny_prover)
    assert isinstance(model, LlamaForCausalLM)
    assert model.dtype is torch.float32
    assert tokenizer.padding_side == "left"
    assert model.config._name_or_path == str(tiny_prover)


def test_weights_have_the_requested_dtype(tiny_prover):
    assert load_prover(tiny_prover, dtype=torch.bfloat16)[0].dtype is torch.bfloat16


def test_an_adapter_is_loaded_on_the_base_that_it_names(tiny_prover, tmp_path):
    base, tokenizer = load_prover(tiny_prover)
    plain = _logits(base, tokenizer)
    model = _with_adapter(base)
    expected = _logits(model, tokenizer)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded, loaded_tokenizer = load_prover(tmp_path)
    assert isinstance(loaded, PeftModel)
    assert loaded_tokenizer.padding_side == "left"
    torch.testing.assert_close(_logits(loaded, loaded_tokenizer), expected, atol=1e-5, rtol=0)
    with loaded.disable_adapter():
        torch.testing.assert_close(_logits(loaded, loaded_tokenizer), plain, atol=1e-5, rtol=0)


def other_base(folder, source, **changes) -> None:
    """A model of the architecture of `source` with other sizes and new weights."""
    config = AutoConfig.from_pretrained(source)
    for name, value in changes.items():
        setattr(config, name, value)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"hidden_size": 64, "head_dim": 16}, "size mismatch"),
        ({"num_hidden_layers": 3}, "only one of the two has `base_model.model.model.layers.2"),
        ({"num_hidden_layers": 1}, "only one of the two has `base_model.model.model.layers.1"),
    ],
)
def test_an_adapter_of_another_model_is_refused(changes, part, tiny_prover, tmp_path):
    other_base(tmp_path / "base", tiny_prover, **changes)
    model, _ = load_prover(tiny_prover)
    lora = lora_for_prover(LoraConfig(r=2, target_modules=["q_proj", "v_proj"]))
    get_peft_model(model, lora).save_pretrained(tmp_path / "adapter")
    load_tokenizer(tiny_prover).save_pretrained(tmp_path / "adapter")
    settings = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    settings["base_model_name_or_path"] = str(tmp_path / "base")
    (tmp_path / "adapter" / "adapter_config.json").write_text(json.dumps(settings))
    with pytest.raises(ValueError, match=f"its base `.*base`: .*{part}"):
        load_prover(tmp_path / "adapter")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_adapter_is_merged_unless_weights_are_in_bfloat16(dtype, tiny_prover):
    base, tokenizer = load_prover(tiny_prover, dtype=dtype)
    assert merge_adapter(base) is base
    model = _with_adapter(base)
    expected = _logits(model, tokenizer)
    merged = merge_adapter(model)
    assert isinstance(merged, PeftModel) == (dtype is torch.bfloat16)
    torch.testing.assert_close(_logits(merged, tokenizer), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_adapter_in_training_is_merged_for_a_while_and_nothing_is_left_of_it(dtype, tiny_prover):
    base, tokenizer = load_prover(tiny_prover, dtype=dtype)
    with merged_adapter(base):  # which has none
        pass
    model = _with_adapter(base)
    layers = [module for module in model.modules() if isinstance(module, LoraLayer)]
    expected, before = _logits(model, tokenizer), {name: p.clone() for name, p in model.named_parameters()}
    with merged_adapter(model):
        assert all(layer.merged == (dtype is torch.float32) for layer in layers)
        torch.testing.assert_close(_logits(model, tokenizer), expected, atol=1e-4, rtol=0)
    assert not any(layer.merged for layer in layers)
    assert all(torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())
    assert torch.equal(_logits(model, tokenizer), expected)


def test_a_base_is_not_rounded_by_merging_as_trl_does_for_vllm(tiny_prover):
    base, _ = load_prover(tiny_prover, dtype=torch.bfloat16)
    model = _with_adapter(base)
    before = {name: p.clone() for name, p in model.named_parameters()}

    def changed() -> list[str]:
        return [name for name, p in model.named_parameters() if not torch.equal(p, before[name])]

    with kept_base(model):
        model.merge_adapter()
        model.unmerge_adapter()
    assert changed() == []
    model.merge_adapter()
    model.unmerge_adapter()
    assert changed()  # why the base is kept


@pytest.mark.parametrize(("revision", "weight"), [(None, 1), ("v1", 2)])
def test_an_adapter_is_loaded_on_its_bases_revision(revision, weight, hub_model, tmp_path):
    base, tokenizer = load_prover(hub_model, revision=revision)
    model = get_peft_model(base, lora_for_prover(LoraConfig(r=2), revision))
    model.save_pretrained(tmp_path / "adapter")
    tokenizer.save_pretrained(tmp_path / "adapter")
    for loaded in (
        load_prover(tmp_path / "adapter")[0],
        AutoPeftModelForCausalLM.from_pretrained(tmp_path / "adapter"),
    ):
        assert set(loaded.get_base_model().model.norm.weight.tolist()) == {weight}


def test_lora_settings_become_a_peft_config(tiny_prover):
    config = LoraConfig(r=3, alpha=5, dropout=0.25, target_modules=["q_proj"])
    model = get_peft_model(load_prover(tiny_prover)[0], lora_for_prover(config))
    trained = {name: p.shape for name, p in model.named_parameters() if p.requires_grad}
    assert all(".q_proj.lora_" in name for name in trained)
    assert {shape[0] for name, shape in trained.items() if "lora_A" in name} == {3}
    layer = model.base_model.model.model.layers[0].self_attn.q_proj
    assert layer.scaling["default"] == pytest.approx(5 / 3)
    assert layer.lora_dropout["default"].p == 0.25


def test_models_can_be_loaded_in_threads(tiny_prover):
    """While transformers loads a model, no model of the process ties its weights; two loads at a time leave it so."""
    tie_weights = PreTrainedModel.tie_weights
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: load_causal_lm(str(tiny_prover)), range(40)))
    assert PreTrainedModel.tie_weights is tie_weights
