import pytest
import torch
from peft import PeftModel, get_peft_model

from pvg_hf.config.sections import LoraConfig
from pvg_hf.models.prover import load_causal_lm, lora_for_prover
from pvg_hf.models.shared_base import share_base
from pvg_hf.models.verifier import load_classifier, lora_for_verifier

IDS = torch.tensor([[3, 4, 5, 6, 7, 8], [9, 10, 11, 12, 13, 14]])


def _with_adapter(model, make_settings) -> PeftModel:
    adapted = get_peft_model(model, make_settings)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.1)
    return adapted.eval()


def _prover(base, **settings) -> PeftModel:
    torch.manual_seed(1)
    return _with_adapter(load_causal_lm(str(base), **settings), lora_for_prover(LoraConfig(r=4)))


def _verifier(base, **settings) -> PeftModel:
    torch.manual_seed(2)
    classifier = load_classifier(str(base), **settings)
    return _with_adapter(classifier, lora_for_verifier(LoraConfig(r=2), classifier))


@torch.no_grad()
def _logits(model) -> torch.Tensor:
    return model(input_ids=IDS).logits


def _storages(model) -> set[int]:
    return {parameter.data_ptr() for parameter in model.parameters()}


@pytest.mark.parametrize("quantization", ["none", "4bit"])
def test_the_base_is_there_once_and_both_players_are_what_they_were(quantization, wider_prover):
    prover = _prover(wider_prover, quantization=quantization)
    verifier = _verifier(wider_prover, quantization=quantization)
    expected = _logits(prover), _logits(verifier)
    num_shared = share_base(verifier, prover)
    torch.testing.assert_close((_logits(prover), _logits(verifier)), expected, atol=0, rtol=0)
    own = sum(p.numel() for n, p in verifier.named_parameters() if "lora_" in n or "score" in n)
    assert num_shared == sum(p.numel() for p in verifier.parameters()) - own > 0
    adapters = sum("lora_" in name for name, _ in verifier.named_parameters())
    assert (
        len(_storages(verifier) - _storages(prover)) == adapters + 2
    )  # and two copies of the head, PEFT's and the base's


def test_a_model_without_an_adapter_shares_too(wider_prover):
    base, verifier = load_causal_lm(str(wider_prover)), _verifier(wider_prover)
    expected = _logits(verifier)
    share_base(base, verifier)
    assert len(_storages(base) - _storages(verifier)) == 0  # its output layer is tied to the embedding
    torch.testing.assert_close(_logits(verifier), expected, atol=0, rtol=0)


def test_a_move_reaches_both(wider_prover):
    prover, verifier = _prover(wider_prover), _verifier(wider_prover)
    share_base(verifier, prover)
    prover.to(torch.float64)
    assert verifier.get_base_model().model.layers[0].mlp.up_proj.base_layer.weight.dtype == torch.float64


def test_training_the_provers_adapter_leaves_the_verifier(wider_prover):
    prover, verifier = _prover(wider_prover), _verifier(wider_prover)
    share_base(verifier, prover)
    expected = _logits(verifier)
    optimizer = torch.optim.SGD([p for p in prover.parameters() if p.requires_grad], lr=1.0)
    prover(input_ids=IDS, labels=IDS).loss.backward()
    optimizer.step()
    torch.testing.assert_close(_logits(verifier), expected, atol=0, rtol=0)


@pytest.mark.parametrize("base", ["tiny_prover", "other weights"])
def test_another_base_is_refused(base, wider_prover, tiny_prover):
    verifier = _verifier(tiny_prover if base == "tiny_prover" else wider_prover)
    prover = _prover(wider_prover)
    if base == "other weights":
        with torch.no_grad():
            prover.get_base_model().model.embed_tokens.weight.add_(1.0)
    with pytest.raises(ValueError, match=r"`embed_tokens.weight` (is \(|has other values)"):
        share_base(verifier, prover)
