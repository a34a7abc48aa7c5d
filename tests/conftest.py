"""Shared by all tests: no connection leaves the machine, and tiny models are made once."""

import os
import shutil
import socket
from pathlib import Path

# Whether CI runs the tests: kept for the processes that this one starts, as CI is set for all of them below.
os.environ.setdefault("PVG_TESTS_IN_CI", os.environ.get("CI", ""))
os.environ.update(CI="1", HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", TOKENIZERS_PARALLELISM="false")

import pytest
import torch
from filelock import FileLock
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


@pytest.fixture(scope="session")
def arithmetic_run(tmp_path_factory, worker_id) -> Path:
    """
    Folder of a run of two rounds on the arithmetic world, played once for all processes of a test session by the players
    that ship with the package. Tests read it and never write to it.
    """
    shared = tmp_path_factory.getbasetemp()
    shared = shared if worker_id == "master" else shared.parent
    recipe = {
        "name": "small",
        "output_dir": str(shared / "arithmetic"),
        "device": "cpu",
        "task": {"name": "arithmetic", "options": {"num_train": 60, "num_test": 12}},
        "split": {"verifier_share": 0.7, "heldout_share": 0.3},
        "bootstrap": {"solutions_per_problem": 2},
        "verifier": {"max_steps": 4, "pairs_per_step": 8},
        "prover": {"max_steps": 2, "prompts_per_step": 2, "num_generations": 2, "max_completion_length": 72},
        "stopping": {"rule": "max_steps"},
        "watchdogs": {"min_pair_accuracy": 0.0},
        "mint": {"solutions_per_problem": 1, "test_solutions_per_problem": 3},
        "evaluation": {"best_of_n": [2], "bootstrap_samples": 100},
        "logging": {"progress": False},
    }
    with FileLock(shared / "arithmetic.lock"):
        from pvg_hf import load_recipe, play

        return play(load_recipe(recipe)).root


@pytest.fixture
def run_copy(arithmetic_run, tmp_path) -> Path:
    """A copy of the run that a test may write to."""
    return Path(shutil.copytree(arithmetic_run, tmp_path / "runs" / "small"))
