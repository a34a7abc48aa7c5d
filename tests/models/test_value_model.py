import pytest
import torch
from transformers import AutoModelForTokenClassification, BertConfig, BertModel, GPT2Config, GPT2Model

from pvg_hf.models.adapters import copy_of_body
from pvg_hf.models.prover_model import load_causal_lm
from pvg_hf.models.score_head import PreciseLinear
from pvg_hf.models.value_model import load_value_model, value_model_of_verifier, value_model_on
from tests.support.adapted_players import IDS, make_prover, make_verifier


@torch.no_grad()
def _hidden(model) -> torch.Tensor:
    return model.base_model(input_ids=IDS).last_hidden_state


def test_a_language_model_becomes_a_critic_that_predicts_0(tiny_prover):
    model, prover = load_value_model(tiny_prover), load_causal_lm(str(tiny_prover))
    torch.testing.assert_close(_hidden(model), _hidden(prover), atol=0, rtol=0)
    assert model(input_ids=IDS).logits.tolist() == torch.zeros(*IDS.shape, 1).tolist()
    assert isinstance(model.score, PreciseLinear)
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_a_critic_that_was_saved_keeps_its_head(tiny_prover, tmp_path):
    model = load_value_model(tiny_prover)
    with torch.no_grad():
        model.score.weight.normal_()
    model.save_pretrained(tmp_path)
    again = load_value_model(tmp_path)
    assert again(input_ids=IDS).logits.equal(model(input_ids=IDS).logits)
    assert AutoModelForTokenClassification.from_pretrained(tmp_path).num_labels == 1  # transformers alone reads it


@pytest.mark.parametrize("has_adapter", [False, True])
def test_a_verifiers_body_is_copied_with_its_adapter(has_adapter, wider_prover):
    verifier = make_verifier(wider_prover)
    if not has_adapter:
        verifier = verifier.merge_and_unload()
    verifier.requires_grad_(False)
    body = verifier.get_base_model() if has_adapter else verifier
    expected, before = _hidden(body), {id(parameter) for parameter in verifier.parameters()}
    model = value_model_of_verifier(verifier)
    torch.testing.assert_close(_hidden(model), expected, atol=1e-4, rtol=1e-4)
    assert not model(input_ids=IDS).logits.any()
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert before.isdisjoint(id(parameter) for parameter in model.parameters())
    assert not any(parameter.requires_grad for parameter in verifier.parameters())


def test_a_verifier_in_4_bits_is_refused(wider_prover):
    with pytest.raises(ValueError, match=r"held in 4 bits.*`adapter`"):
        value_model_of_verifier(make_verifier(wider_prover, "4bit"))


def test_a_model_that_attends_to_later_tokens_cannot_be_a_critic():
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    with pytest.raises(ValueError, match=r"`BertModel` .*later tokens"):
        value_model_on(BertModel(BertConfig(vocab_size=20, **sizes)))


def test_a_head_with_another_name_is_found(tiny_prover):
    model = value_model_on(GPT2Model(GPT2Config(vocab_size=64, n_embd=16, n_layer=1, n_head=2)))
    assert isinstance(model.classifier, PreciseLinear)
    assert not model(input_ids=IDS % 64).logits.any()


@pytest.mark.parametrize("quantization", ["none", "4bit"])
def test_a_copied_body_shares_the_provers_weights_without_its_adapters(quantization, wider_prover):
    prover = make_prover(wider_prover, quantization)
    with prover.disable_adapter():
        expected = _hidden(prover.get_base_model())
    body = copy_of_body(prover)
    own = {parameter.data_ptr() for parameter in body.parameters()}
    assert own <= {parameter.data_ptr() for parameter in prover.parameters()}
    assert not any("lora_" in name for name, _ in body.named_parameters())
    assert any("lora_" in name for name, _ in prover.named_parameters())
    with torch.no_grad():
        torch.testing.assert_close(body(input_ids=IDS).last_hidden_state, expected, atol=0, rtol=0)
