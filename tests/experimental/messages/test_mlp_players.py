"""Players with fully connected networks: messages, and saved and loaded weights."""

import pytest
import torch

from pvg_hf.experimental.messages.mlp_players import (
    MessageMLPProver,
    MessageMLPProverConfig,
    MessageMLPVerifier,
    MessageMLPVerifierConfig,
)

SIZES = {"num_inputs": 6, "message_width": 3, "hidden_size": 8}


def test_continuous_messages_are_bounded():
    prover = MessageMLPProver(MessageMLPProverConfig(**SIZES, dropout=0.5)).eval()
    message = prover(torch.full((4, 2, 3), 1e3))  # problems are flattened
    assert message.shape == (4, 3)
    assert message.abs().max() <= 1


def test_discrete_messages_are_symbols_with_a_gradient():
    prover = MessageMLPProver(MessageMLPProverConfig(**SIZES, message_form="discrete", num_symbols=4))
    torch.manual_seed(0)
    message = prover.train()(torch.randn(5, 6))
    assert message.shape == (5, 12)
    # A straight-through sample is a one-hot vector up to rounding.
    assert torch.allclose(message.unflatten(1, (3, 4)).sum(dim=2), torch.ones(5, 3), atol=1e-6)
    message[:, 0].sum().backward()
    assert prover.network[0].weight.grad.abs().sum() > 0
    problems = torch.randn(5, 6)
    assert torch.equal(prover.eval()(problems), prover(problems))  # the most likely symbols


@pytest.mark.parametrize("num_logits", [1, 2])
def test_players_are_loaded_as_they_were_saved(tmp_path, num_logits):
    prover = MessageMLPProver(MessageMLPProverConfig(**SIZES, message_form="discrete")).eval()
    verifier = MessageMLPVerifier(
        MessageMLPVerifierConfig(**SIZES, message_form="discrete", num_logits=num_logits)
    ).eval()
    prover.save_pretrained(tmp_path / "prover")
    verifier.save_pretrained(tmp_path / "verifier")
    problems = torch.randn(4, 6)
    message = prover(problems)
    assert torch.equal(MessageMLPProver.from_pretrained(tmp_path / "prover")(problems), message)
    logits = MessageMLPVerifier.from_pretrained(tmp_path / "verifier")(message, problems)
    assert torch.equal(logits, verifier(message, problems))
    assert logits.shape == (4, num_logits)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"message_form": "spoken"}, "`spoken`.*`continuous`"),
        ({"message_width": 0}, "`message_width` is 0"),
        ({"num_symbols": 1}, "`num_symbols` is 1"),
        ({"temperature": 0.0}, r"`temperature` is 0\.0"),
        ({"num_layers": 0}, "`num_layers` is 0"),
        ({"dropout": 1.0}, r"`dropout` is 1\.0"),
        ({"num_logits": 3}, "`num_logits` is 3"),
    ],
    ids=["form", "width", "symbols", "temperature", "layers", "dropout", "logits"],
)
def test_impossible_settings_are_errors(options, match):
    with pytest.raises(ValueError, match=match):
        MessageMLPVerifierConfig(**options)
