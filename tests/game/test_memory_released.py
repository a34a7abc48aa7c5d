"""What a phase held is gone before the next one loads its own."""

import gc

import pytest
import torch

from pvg_hf import load_recipe, play
from pvg_hf.game.callbacks import GameCallback


def _held_bytes() -> int:
    """Bytes of all tensors that are alive."""
    gc.collect()
    tensors = [thing for thing in gc.get_objects() if isinstance(thing, torch.Tensor)]
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(storages.values())


class Levels(GameCallback):
    """Measures before each phase."""

    def __init__(self, measure):
        self.measure = measure
        self.before: dict[str, int] = {}

    def on_phase_begin(self, context):
        self.before[str(context.phase)] = self.measure()


@pytest.mark.parametrize(
    ("lora", "algorithm"),
    [
        pytest.param(None, "grpo", marks=pytest.mark.slow),
        pytest.param({"r": 2}, "grpo", marks=pytest.mark.slow),
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


@pytest.mark.gpu
def test_allocated_bytes_of_a_gpu_come_back(tmp_path, make_recipe):
    levels = Levels(torch.cuda.memory_allocated)
    play(load_recipe(make_recipe(tmp_path, num_rounds=1, device="auto")), callbacks=[levels])
    assert max([*levels.before.values(), torch.cuda.memory_allocated()]) - levels.before["bootstrap"] < 2**20
