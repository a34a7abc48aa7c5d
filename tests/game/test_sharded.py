"""Two processes that shard a player (FSDP2, over gloo) give the results of two that hold copies of it."""

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from pvg_hf.core.integrity import read_json_lines
from pvg_hf.run.layout import RunFolder
from tests.support.game_runs import branch_off, start_two

LORA = {"r": 4, "alpha": 8}


pytestmark = pytest.mark.slow


@pytest.fixture(
    scope="module",
    params=[pytest.param(None, id="whole"), pytest.param(LORA, id="adapters", marks=pytest.mark.nightly)],
)
def runs(request, tmp_path_factory, make_recipe, reference, repository) -> dict[str, RunFolder]:
    """The first round's verifier, prover and minting, with copies and with shards."""
    launcher = str(repository / "recipes/accelerate/fsdp.yaml")
    found = {}
    for name, order in (("copies", {}), ("parts", {"launcher": launcher})):
        place = tmp_path_factory.mktemp(name)
        recipe = make_recipe(
            place, verifier__pairs_per_step=4, verifier__lora=request.param, prover__lora=request.param
        )
        branch_off(reference, place, "round-000/verifier")
        parts = [{"recipe": recipe, "phase": phase, "round_index": 0} for phase in ("verifier", "prover", "mint")]
        log = place / "log.txt"
        assert start_two({"parts": parts, **order}, log).wait(timeout=300) == 0, log.read_text()
        found[name] = RunFolder(place / "game")
    return found


@pytest.mark.parametrize("side", ["verifier", "prover"])
def test_the_weights_that_are_saved_are_whole_and_the_same(side, runs):
    copies, parts = (
        load_file(next(getattr(runs[name], side)(0).glob("*.safetensors"))) for name in ("copies", "parts")
    )
    head = parts.pop("lm_head.weight", None)  # gathered, tied weights are two tensors
    if head is not None:
        torch.testing.assert_close(head, parts["model.embed_tokens.weight"], atol=0, rtol=0)
    assert copies.keys() == parts.keys()
    for name, tensor in copies.items():
        torch.testing.assert_close(parts[name], tensor, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("side", ["verifier", "prover"])
def test_steps_are_the_same_up_to_rounding(side, runs):
    copies, parts = (read_json_lines(getattr(runs[name], side)(0) / "metrics.jsonl") for name in ("copies", "parts"))
    assert len(copies) == len(parts)
    for mine, others in zip(parts, copies, strict=True):
        assert mine.keys() == others.keys()
        for key, value in mine.items():
            assert value == pytest.approx(others[key], abs=2e-3), key


def test_the_next_phase_reads_what_was_saved(runs):
    copies, parts = (pd.read_parquet(runs[name].pool(0) / "helpful.parquet") for name in ("copies", "parts"))
    assert parts[["problem_id", "sample_index"]].equals(copies[["problem_id", "sample_index"]])
    assert (parts["solution"] == copies["solution"]).mean() > 0.9  # rounding seldom turns a draw
