import pytest
import torch
from bitsandbytes.nn import Linear4bit

from pvg_hf.models.prover_model import load_prover, merge_adapter
from pvg_hf.models.quantization import check_quantization, is_quantized, saved_quantization
from pvg_hf.models.score_head import PreciseLinear
from pvg_hf.models.verifier_model import load_classifier, load_verifier
from tests.support.adapted_players import IDS, logits_of, make_prover, make_verifier, save_player


@pytest.fixture
def base(wider_prover):
    return str(wider_prover)


def test_a_base_in_4_bits_keeps_its_head_and_embeddings(base):
    model = load_classifier(base, quantization="4bit")
    assert is_quantized(model)
    assert isinstance(model.model.layers[0].mlp.up_proj, Linear4bit)
    assert isinstance(model.score, PreciseLinear)
    assert model.model.embed_tokens.weight.dtype == torch.float32
    assert not is_quantized(load_classifier(base))


def test_a_reloaded_prover_has_the_same_logits(base, tokenizer, tmp_path):
    model = make_prover(base, "4bit")
    expected = logits_of(model)
    save_player(model, tokenizer, tmp_path, "prover")
    assert saved_quantization(tmp_path) == "4bit"
    loaded, _ = load_prover(tmp_path)
    assert is_quantized(loaded)
    torch.testing.assert_close(logits_of(loaded), expected, atol=1e-5, rtol=0)
    assert merge_adapter(loaded) is loaded  # merged, it would be rounded to 4 bits


def test_a_reloaded_verifier_gives_the_same_scores(base, tokenizer, tmp_path):
    model = make_verifier(base, "4bit")
    expected = logits_of(model)
    save_player(model, tokenizer, tmp_path, "verifier")
    torch.manual_seed(5)  # another head, were it not saved
    loaded, _ = load_verifier(tmp_path)
    torch.testing.assert_close(logits_of(loaded), expected, atol=1e-5, rtol=0)


def test_an_adapter_on_full_weights_does_not_mention_quantization(base, tokenizer, tmp_path):
    save_player(make_prover(base), tokenizer, tmp_path, "prover")
    assert saved_quantization(tmp_path) == "none"
    assert not is_quantized(load_prover(tmp_path)[0])


def test_gradients_are_the_same_before_and_after_a_forward_without_them(base):
    """bitsandbytes would repack the weights in a forward without gradients on processors with AVX512-BF16."""
    model = make_prover(base, "4bit")
    layers = [module for module in model.modules() if isinstance(module, Linear4bit)]
    assert layers
    assert not any(layer.support_avx512bf16_for_cpu for layer in layers)

    def gradients() -> dict[str, torch.Tensor]:
        model.zero_grad()
        model.train()(input_ids=IDS, labels=IDS).loss.backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    before = gradients()
    logits_of(model)
    after = gradients()
    assert before.keys() == after.keys()
    assert max(gradient.abs().max() for gradient in before.values()) > 0
    for name, gradient in before.items():
        torch.testing.assert_close(after[name], gradient, atol=0, rtol=0)


def test_a_device_without_4_bit_weights_is_refused():
    check_quantization("none", torch.device("mps"))
    check_quantization("4bit", torch.device("cpu"))
    with pytest.raises(ValueError, match=r"4-bit .*`mps` .*cpu, cuda, xpu"):
        check_quantization("4bit", torch.device("mps"))
