import pytest
import torch
from bitsandbytes.nn import Linear4bit
from peft import PeftModel, get_peft_model

from pvg_hf.config.sections import LoraConfig
from pvg_hf.models.prover import load_causal_lm, load_prover, lora_for_prover, merge_adapter
from pvg_hf.models.quantization import check_quantization, is_quantized, saved_quantization
from pvg_hf.models.score_head import PreciseLinear, draw_head
from pvg_hf.models.sources import name_base
from pvg_hf.models.verifier import load_classifier, load_verifier, lora_for_verifier

IDS = torch.tensor([[3, 4, 5, 6, 7, 8], [9, 10, 11, 12, 13, 14]])


@pytest.fixture
def base(wider_prover):
    return str(wider_prover)


def _disturb(model: PeftModel) -> PeftModel:
    """Adapters that do something."""
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.1)
    return model


def _save(model: PeftModel, tokenizer, folder, player: str) -> None:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    name_base(model, folder, player=player, run=folder)


@torch.no_grad()
def _logits(model) -> torch.Tensor:
    return model.eval()(input_ids=IDS).logits


def test_a_base_in_4_bits_keeps_its_head_and_embeddings(base):
    model = load_classifier(base, quantization="4bit")
    assert is_quantized(model)
    assert isinstance(model.model.layers[0].mlp.up_proj, Linear4bit)
    assert isinstance(model.score, PreciseLinear)
    assert model.model.embed_tokens.weight.dtype == torch.float32
    assert not is_quantized(load_classifier(base))


def test_a_prover_comes_back_to_the_same_logits(base, tokenizer, tmp_path):
    model = _disturb(get_peft_model(load_causal_lm(base, quantization="4bit"), lora_for_prover(LoraConfig(r=4))))
    expected = _logits(model)
    _save(model, tokenizer, tmp_path, "prover")
    assert saved_quantization(tmp_path) == "4bit"
    loaded, _ = load_prover(tmp_path)
    assert is_quantized(loaded)
    torch.testing.assert_close(_logits(loaded), expected, atol=1e-5, rtol=0)
    assert merge_adapter(loaded) is loaded  # merged, it would be rounded to 4 bits


def test_a_verifier_comes_back_to_the_same_scores(base, tokenizer, tmp_path):
    classifier = load_classifier(base, quantization="4bit")
    model = _disturb(get_peft_model(classifier, lora_for_verifier(LoraConfig(r=4), classifier)))
    draw_head(model, seed=1)
    expected = _logits(model)
    _save(model, tokenizer, tmp_path, "verifier")
    torch.manual_seed(5)  # another head, were it not saved
    loaded, _ = load_verifier(tmp_path)
    torch.testing.assert_close(_logits(loaded), expected, atol=1e-5, rtol=0)


def test_an_adapter_on_full_weights_says_nothing_of_bits(base, tokenizer, tmp_path):
    _save(get_peft_model(load_causal_lm(base), lora_for_prover(LoraConfig(r=4))), tokenizer, tmp_path, "prover")
    assert saved_quantization(tmp_path) == "none"
    assert not is_quantized(load_prover(tmp_path)[0])


def test_gradients_are_the_same_before_and_after_a_forward_without_them(base):
    """On processors with AVX512-BF16 bitsandbytes would pack the weights anew at the forward without gradients."""
    model = _disturb(get_peft_model(load_causal_lm(base, quantization="4bit"), lora_for_prover(LoraConfig(r=4))))
    layers = [module for module in model.modules() if isinstance(module, Linear4bit)]
    assert layers
    assert not any(layer.support_avx512bf16_for_cpu for layer in layers)

    def gradients() -> dict[str, torch.Tensor]:
        model.zero_grad()
        model.train()(input_ids=IDS, labels=IDS).loss.backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    before = gradients()
    _logits(model)
    after = gradients()
    assert before.keys() == after.keys()
    assert max(gradient.abs().max() for gradient in before.values()) > 0
    for name, gradient in before.items():
        torch.testing.assert_close(after[name], gradient, atol=0, rtol=0)


def test_a_device_without_4_bit_weights_is_refused():
    check_quantization("none", torch.device("mps"))
    check_quantization("4bit", torch.device("cpu"))
    with pytest.raises(ValueError, match=r"no 4-bit weights for the device `mps` \(it has for cpu, cuda, xpu\)"):
        check_quantization("4bit", torch.device("mps"))
