import pytest
import torch

from pvg_hf.models.adapters import share_base
from pvg_hf.models.prover_model import load_causal_lm
from tests.support.adapted_players import IDS, logits_of, make_prover, make_verifier


def _storages(model) -> set[int]:
    return {parameter.data_ptr() for parameter in model.parameters()}


@pytest.mark.parametrize("quantization", ["none", "4bit"])
def test_the_base_is_in_memory_once_and_both_players_are_unchanged(quantization, wider_prover):
    prover = make_prover(wider_prover, quantization)
    verifier = make_verifier(wider_prover, quantization)
    expected = logits_of(prover), logits_of(verifier)
    num_shared = share_base(verifier, prover)
    torch.testing.assert_close((logits_of(prover), logits_of(verifier)), expected, atol=0, rtol=0)
    own = sum(p.numel() for n, p in verifier.named_parameters() if "lora_" in n or "score" in n)
    assert num_shared == sum(p.numel() for p in verifier.parameters()) - own > 0
    adapters = sum("lora_" in name for name, _ in verifier.named_parameters())
    assert (
        len(_storages(verifier) - _storages(prover)) == adapters + 2
    )  # and two copies of the head, PEFT's and the base's


def test_a_model_without_an_adapter_can_share_the_base(wider_prover):
    base, verifier = load_causal_lm(str(wider_prover)), make_verifier(wider_prover)
    expected = logits_of(verifier)
    share_base(base, verifier)
    assert len(_storages(base) - _storages(verifier)) == 0  # its output layer is tied to the embedding
    torch.testing.assert_close(logits_of(verifier), expected, atol=0, rtol=0)


def test_moving_one_model_moves_both(wider_prover):
    prover, verifier = make_prover(wider_prover), make_verifier(wider_prover)
    share_base(verifier, prover)
    prover.to(torch.float64)
    assert verifier.get_base_model().model.layers[0].mlp.up_proj.base_layer.weight.dtype == torch.float64


def test_training_the_provers_adapter_leaves_the_verifier_unchanged(wider_prover):
    prover, verifier = make_prover(wider_prover), make_verifier(wider_prover)
    share_base(verifier, prover)
    expected = logits_of(verifier)
    optimizer = torch.optim.SGD([p for p in prover.parameters() if p.requires_grad], lr=1.0)
    prover(input_ids=IDS, labels=IDS).loss.backward()
    optimizer.step()
    torch.testing.assert_close(logits_of(verifier), expected, atol=0, rtol=0)


@pytest.mark.parametrize("base", ["tiny_prover", "other weights"])
def test_another_base_is_refused(base, wider_prover, tiny_prover):
    verifier = make_verifier(tiny_prover if base == "tiny_prover" else wider_prover)
    prover = make_prover(wider_prover)
    if base == "other weights":
        with torch.no_grad():
            prover.get_base_model().model.embed_tokens.weight.add_(1.0)
    with pytest.raises(ValueError, match=r"`embed_tokens.weight` (is \(|has other)"):
        share_base(verifier, prover)
