"""Players on encoders: a new one from a configuration, a pretrained one, a frozen one."""

import pytest
import torch
from transformers import BertConfig, BertModel

from pvg_hf.experimental.messages.transformer_players import (
    MessageTransformerProver,
    MessageTransformerProverConfig,
    MessageTransformerVerifier,
    MessageTransformerVerifierConfig,
)

SMALL = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}
BERT = {"model_type": "bert", **SMALL, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
DISTILBERT = {"model_type": "distilbert", "vocab_size": 50, "dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 16}
IDS = {
    "input_ids": torch.tensor([[2, 5, 7, 0], [2, 9, 0, 0]]),
    "attention_mask": torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0]]),
}


@pytest.mark.parametrize("encoder", [BERT, DISTILBERT], ids=["bert", "distilbert"])
def test_players_on_an_encoder_are_loaded_as_they_were_saved(tmp_path, encoder):
    prover = MessageTransformerProver(MessageTransformerProverConfig(encoder=encoder, message_width=3)).eval()
    verifier = MessageTransformerVerifier(
        MessageTransformerVerifierConfig(encoder=encoder, message_width=3, num_logits=2)
    ).eval()
    message = prover(**IDS)
    assert message.shape == (2, 3)
    logits = verifier(message, **IDS)
    assert logits.shape == (2, 2)
    for player, name in ((prover, "p"), (verifier, "v")):
        player.save_pretrained(tmp_path / name)
    assert torch.allclose(MessageTransformerProver.from_pretrained(tmp_path / "p")(**IDS), message)
    assert torch.allclose(MessageTransformerVerifier.from_pretrained(tmp_path / "v")(message, **IDS), logits)


def test_a_pretrained_encoder_keeps_its_weights(tmp_path):
    encoder = BertModel(BertConfig(**SMALL))
    encoder.save_pretrained(tmp_path)
    prover = MessageTransformerProver.from_encoder(tmp_path, message_width=2, freeze_encoder=True)
    ours = prover.encoder.state_dict()
    assert all(torch.equal(value, ours[name]) for name, value in encoder.state_dict().items())
    trained = {name.split(".")[0] for name, parameter in prover.named_parameters() if parameter.requires_grad}
    assert trained == {"head"}


def test_an_encoder_in_half_precision_is_trained_in_single(tmp_path):
    BertModel(BertConfig(**SMALL)).to(torch.bfloat16).save_pretrained(tmp_path)
    prover = MessageTransformerProver.from_encoder(tmp_path, message_width=2)
    assert {parameter.dtype for parameter in prover.parameters()} == {torch.float32}
    prover(**IDS).sum().backward()
    prover.save_pretrained(tmp_path / "prover")
    loaded = MessageTransformerProver.from_pretrained(tmp_path / "prover")
    assert torch.equal(loaded.eval()(**IDS), prover.eval()(**IDS))


def test_a_model_that_is_nowhere_is_an_error():
    with pytest.raises(ValueError, match="`no/where/at/all` is not a folder"):
        MessageTransformerProver.from_encoder("no/where/at/all")


def test_the_message_reaches_the_verdict():
    verifier = MessageTransformerVerifier(MessageTransformerVerifierConfig(encoder=BERT, message_width=2)).eval()
    messages = torch.tensor([[1.0, 1.0], [1.0, 1.0]]), torch.tensor([[-1.0, 1.0], [1.0, 1.0]])
    before, after = (verifier(message, **IDS) for message in messages)
    assert before[0] != after[0]
    assert before[1] == after[1]
