import logging

import pytest
import torch
from peft import get_peft_model
from transformers import (
    LlamaConfig,
    LlamaForSequenceClassification,
)

from pvg_hf.config.player_sections import LoraConfig
from pvg_hf.models.prover_model import load_causal_lm
from pvg_hf.models.score_head import PreciseLinear, draw_head
from pvg_hf.models.verifier_model import load_classifier, load_verifier, lora_for_verifier

SIZES = {"vocab_size": 20, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "num_labels": 1}


def _llama() -> LlamaForSequenceClassification:
    return LlamaForSequenceClassification(LlamaConfig(hidden_size=16, pad_token_id=0, **SIZES))


def _with_adapters(model):
    return get_peft_model(model, lora_for_verifier(LoraConfig(r=2), model))


def _weights(model) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def test_a_language_model_becomes_a_classifier(tiny_prover, caplog):
    with caplog.at_level(logging.WARNING):
        model = load_classifier(str(tiny_prover))
    assert isinstance(model, LlamaForSequenceClassification)
    assert model.score.weight.shape == (1, 32)
    assert "score.weight" not in caplog.text  # a new head is intended, so that no warning is shown
    body = load_causal_lm(str(tiny_prover)).model.state_dict()
    assert all(weight.equal(body[name]) for name, weight in model.model.state_dict().items())


def test_a_missing_padding_token_is_taken_from_the_tokenizer(tiny_prover, tokenizer, tmp_path):
    model = load_causal_lm(str(tiny_prover))
    model.config.pad_token_id = model.generation_config.pad_token_id = None
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert load_classifier(str(tmp_path)).config.pad_token_id == tokenizer.pad_token_id


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_trained_verifier_is_reloaded(dtype, tiny_prover, tokenizer, tmp_path):
    model = load_classifier(str(tiny_prover))
    draw_head(model, seed=4)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded, loaded_tokenizer = load_verifier(tmp_path, dtype=dtype)
    assert loaded.score.weight.equal(model.score.weight.to(dtype).float())
    assert isinstance(loaded.score, PreciseLinear)
    assert loaded.model.embed_tokens.weight.dtype is dtype
    assert len(loaded_tokenizer) == len(tokenizer)


@pytest.mark.parametrize("is_trainable", [True, False])
def test_an_adapter_is_reloaded_with_its_head(is_trainable, tiny_prover, tokenizer, tmp_path):
    model = _with_adapters(load_classifier(str(tiny_prover)))
    draw_head(model, seed=4)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded, _ = load_verifier(tmp_path, is_trainable=is_trainable)
    saved, found = _weights(model), _weights(loaded)
    trained = [name for name in saved if "lora_" in name or name.endswith("score.modules_to_save.default.weight")]
    assert all(saved[name].equal(found[name]) for name in trained)
    assert {name for name, p in loaded.named_parameters() if p.requires_grad} == (
        set(trained) if is_trainable else set()
    )


@pytest.mark.parametrize(("revision", "weight"), [(None, 1), ("v1", 2)])
def test_an_adapter_is_loaded_on_its_bases_revision(revision, weight, hub_model, tokenizer, tmp_path):
    base = load_classifier(hub_model, revision=revision)
    model = get_peft_model(base, lora_for_verifier(LoraConfig(r=2), base, revision))
    model.save_pretrained(tmp_path / "adapter")
    tokenizer.save_pretrained(tmp_path / "adapter")
    loaded, _ = load_verifier(tmp_path / "adapter")
    assert set(loaded.get_base_model().model.norm.weight.tolist()) == {weight}


def test_adapters_leave_the_head_to_be_trained_whole():
    model = _with_adapters(_llama())
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    assert [name for name in trained if "lora_" not in name] == [
        "base_model.model.score.modules_to_save.default.weight"
    ]
    assert not any("score" in name for name in trained if "lora_" in name)
