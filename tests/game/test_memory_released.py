"""The memory of a phase is released before the next one loads its models."""

import gc
import json
import os
import subprocess
import sys

import pytest
import torch
from torch.nn.functional import pad

from pvg_hf import load_recipe, play
from pvg_hf.models.prover_model import load_prover
from tests.support import noise_levels as levels_script
from tests.support.noise_levels import Levels

pytestmark = pytest.mark.game


def _held_bytes() -> int:
    """Bytes of all tensors that are alive."""
    gc.collect()
    tensors = [thing for thing in gc.get_objects() if isinstance(thing, torch.Tensor)]
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(storages.values())


@pytest.mark.parametrize(
    ("lora", "algorithm"),
    [
        pytest.param(None, "grpo", marks=pytest.mark.nightly),
        pytest.param({"r": 2}, "grpo", marks=pytest.mark.nightly),
        ({"r": 2}, "ppo"),
    ],
)
def test_no_tensor_outlives_its_phase(lora, algorithm, tmp_path, make_recipe):
    levels = Levels(_held_bytes)
    settings = {"prover__roles": "separate" if lora else "shared", "prover__lora": lora, "verifier__lora": lora}
    settings |= {"prover__algorithm": algorithm, "prover__save_steps": None}
    recipe = make_recipe(tmp_path, num_rounds=1, prover__max_steps=2, verifier__max_steps=2, **settings)
    start = _held_bytes()
    play(load_recipe(recipe), callbacks=[levels])
    assert list(levels.before) == [
        "bootstrap",
        *(f"round-000/{name}" for name in ("verifier", "prover", "mint", "evaluate")),
    ]
    # A few numbers stay, such as the generators' states and constants that libraries keep.
    assert max([*levels.before.values(), _held_bytes()]) - start < 2**16


@pytest.fixture
def large_player(player, tmp_path):
    """The player with additional neurons that have no effect: it writes the same texts, and takes 25 MB."""
    model, tokenizer = load_prover(player)
    model.config.intermediate_size = 32768
    for layer in model.model.layers:
        mlp = layer.mlp
        more = model.config.intermediate_size - mlp.intermediate_size
        mlp.intermediate_size = model.config.intermediate_size
        mlp.gate_proj.weight.data = pad(mlp.gate_proj.weight.data, (0, 0, 0, more))
        mlp.up_proj.weight.data = pad(mlp.up_proj.weight.data, (0, 0, 0, more))
        mlp.down_proj.weight.data = pad(mlp.down_proj.weight.data, (0, more))
    model.save_pretrained(tmp_path / "large")
    tokenizer.save_pretrained(tmp_path / "large")
    return tmp_path / "large"


@pytest.mark.nightly
def test_resident_memory_comes_back_after_each_phase(large_player, tmp_path, make_recipe):
    """
    From the second round on everything is imported, and the memory at each phase is that of the round before. The
    allocator is set to return large blocks immediately; otherwise free memory may stay with the process.
    """
    size = (large_player / "model.safetensors").stat().st_size
    assert size > 25_000_000
    steps = {"verifier__max_steps": 2, "prover__max_steps": 2, "prover__save_steps": None}
    models = {"prover__model": str(large_player), "verifier__model": str(large_player)}
    recipe = tmp_path / "recipe.json"
    recipe.write_text(json.dumps(make_recipe(tmp_path / "runs", num_rounds=3, **steps, **models)))
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}
    command = [sys.executable, levels_script.__file__, str(recipe)]
    played = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=500)
    before = json.loads(played.stdout.splitlines()[-1])
    for phase in ("verifier", "prover", "mint", "evaluate"):
        levels = [before[f"round-00{index}/{phase}"] for index in (1, 2)]
        assert levels[1] - levels[0] < size / 2, (phase, before)


def _allocated_bytes() -> int:
    """Bytes of tensors on the GPU, without the workspaces that cuBLAS keeps for each thread that has multiplied."""
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    return torch.cuda.memory_allocated()


@pytest.mark.gpu
def test_allocated_bytes_of_a_gpu_come_back(tmp_path, make_recipe):
    levels = Levels(_allocated_bytes)
    play(load_recipe(make_recipe(tmp_path, num_rounds=1, device="cuda")), callbacks=[levels])
    assert max([*levels.before.values(), _allocated_bytes()]) - levels.before["bootstrap"] < 2**20
