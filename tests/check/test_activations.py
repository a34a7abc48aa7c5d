"""Activations of a layer: the formula against what autograd saves for a model of the Llama kind."""

import pytest
import torch
from peft import get_peft_model
from transformers import AutoModelForSequenceClassification, Qwen2Config

from pvg_hf.check.player_sizes import measure_size
from pvg_hf.config.player_sections import LoraConfig
from pvg_hf.models.verifier_model import lora_for_verifier

ROWS, WIDTH = 2, 33
SIZES = {"hidden_size": 64, "intermediate_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2}


def config_of(num_layers: int) -> Qwen2Config:
    return Qwen2Config(vocab_size=50, num_hidden_layers=num_layers, num_labels=1, pad_token_id=0, **SIZES)


def saved_bytes(num_layers: int, lora: LoraConfig | None, is_mixed: bool) -> int:
    """Bytes that autograd keeps for the backward pass, in all and without weights."""
    model = AutoModelForSequenceClassification.from_config(config_of(num_layers))
    if lora:
        model = get_peft_model(model, lora_for_verifier(lora, model))
    if is_mixed and lora:
        for parameter in model.parameters():
            parameter.data = parameter.data.to(torch.float32 if parameter.requires_grad else torch.bfloat16)
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept, seen = [], {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor)  # so that no other tensor gets its address
        storage = tensor.untyped_storage()
        is_weight = storage.data_ptr() in weights or tensor.numel() in weight_sizes
        seen[storage.data_ptr()] = 0 if is_weight else storage.nbytes()
        return tensor

    weight_sizes = {parameter.numel() for parameter in model.parameters()}  # also of their copies in 16 bits
    ids = torch.ones(ROWS, WIDTH, dtype=torch.long)
    watching = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with watching, torch.autocast("cpu", torch.bfloat16, enabled=is_mixed):
        model.train()(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False)
    return sum(seen.values())


@pytest.mark.parametrize("is_mixed", [False, True], ids=["float32", "mixed"])
@pytest.mark.parametrize("lora", [None, LoraConfig(r=4)], ids=["all weights", "an adapter"])
def test_a_layer_keeps_as_much_as_autograd_saves(lora, is_mixed):
    dtype = torch.bfloat16 if is_mixed and lora else torch.float32
    size = measure_size(config_of(1), has_lm_head=False, dtype=dtype, lora=lora, is_mixed=is_mixed)
    saved = (saved_bytes(4, lora, is_mixed) - saved_bytes(2, lora, is_mixed)) / 2 / (ROWS * WIDTH)
    assert size.kept_bytes == pytest.approx(saved, rel=0.15)
