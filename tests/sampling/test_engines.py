"""Transformers' continuous batching, called as by the game."""

import pytest
import torch

from pvg_hf.core.seeding import derive_rng
from pvg_hf.models.prover_model import load_prover
from pvg_hf.models.sources import resolve_model
from pvg_hf.sampling import Sampler
from pvg_hf.sampling.engines import ContinuousSampler

PROMPTS = [
    "Ben has 12 coins.\nEli has twice as many as Ben.\nFay has 4 fewer than Eli.\nHow many coins does Fay have?\n"
    "helpful solution:\n",
    "Ana has 3 pens.\nBen has 5 more than Ana.\nEli has 2 fewer than Ben.\nFay has twice as many as Eli.\n"
    "How many pens does Fay have?\nsneaky solution:\n",
]


@pytest.fixture(scope="module")
def prover():
    return load_prover(resolve_model("arithmetic", "prover"))


def test_continuous_batching_writes_what_the_sampler_writes(prover):
    """The temperature is so low that each token is the most probable one, whatever is drawn."""
    settings = {"max_new_tokens": 64, "temperature": 1e-4}
    rngs = [[derive_rng(0, prompt, index) for index in range(2)] for prompt in PROMPTS]
    expected = Sampler(*prover, **settings).sample(PROMPTS, rngs)
    generator = torch.get_rng_state()
    prover[0].train()
    assert ContinuousSampler(*prover, **settings).sample(PROMPTS, rngs) == expected
    assert len({sample.num_tokens for samples in expected for sample in samples}) > 1  # rows end at different times
    assert prover[0].training
    assert torch.equal(torch.get_rng_state(), generator)
