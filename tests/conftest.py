"""Shared by all tests: no connection leaves the machine, and tiny models are made once."""

import os
import socket
from pathlib import Path

os.environ.update(CI="1", HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", TOKENIZERS_PARALLELISM="false")

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase

from pvg_hf.models.arithmetic_tokenizer import build_arithmetic_tokenizer

REPOSITORY = Path(__file__).parent.parent
_LOOPBACK = ("127.", "localhost", "::1", "0.0.0.0")


@pytest.fixture(autouse=True)
def _only_loopback(monkeypatch):
    """Any connection off the loopback fails the test."""
    connect = socket.socket.connect

    def guarded(self, address):
        if isinstance(address, tuple) and not str(address[0]).startswith(_LOOPBACK):
            raise AssertionError(f"A test tried to reach {address}.")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerBase:
    """The arithmetic world's tokenizer."""
    return build_arithmetic_tokenizer()


def make_tiny_llama(tokenizer, **settings) -> LlamaForCausalLM:
    """A Llama of two narrow layers with seeded weights, large enough to prefer some tokens over others."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, **settings}
    ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    config = LlamaConfig(
        vocab_size=len(tokenizer), max_position_embeddings=256, tie_word_embeddings=True, **sizes, **ids
    )
    torch.manual_seed(0)
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(4)
    return model


@pytest.fixture(scope="session")
def tiny_prover(tmp_path_factory, tokenizer) -> Path:
    """Folder of a tiny causal language model with the arithmetic tokenizer."""
    folder = tmp_path_factory.mktemp("tiny") / "prover"
    make_tiny_llama(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def wider_prover(tmp_path_factory, tokenizer) -> Path:
    """Wide enough for bitsandbytes, which quantises blocks of 64 weights."""
    folder = tmp_path_factory.mktemp("wider") / "prover"
    make_tiny_llama(tokenizer, hidden_size=64, intermediate_size=128).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
