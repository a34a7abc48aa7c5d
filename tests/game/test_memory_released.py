"""What a phase held is gone before the next one loads its own."""

import gc
import json

import psutil
import pytest
import torch
from recall_task import RecallTask, write_solution
from transformers import LlamaConfig, LlamaForCausalLM

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


@pytest.mark.parametrize("lora", [None, {"r": 2}])
def test_no_tensor_outlives_its_phase(lora, tmp_path, make_recipe):
    levels = Levels(_held_bytes)
    settings = {"prover__roles": "separate" if lora else "shared", "prover__lora": lora, "verifier__lora": lora}
    recipe = make_recipe(tmp_path, num_rounds=1, prover__max_steps=2, verifier__max_steps=2, **settings)
    start = _held_bytes()
    play(load_recipe(recipe), callbacks=[levels])
    assert list(levels.before) == [
        "bootstrap",
        *(f"round-000/{name}" for name in ("verifier", "prover", "mint", "evaluate")),
    ]
    # A few numbers stay, such as the generators' states and constants that libraries keep.
    assert max([*levels.before.values(), _held_bytes()]) - start < 2**16


def test_resident_memory_comes_back(tmp_path, make_recipe, tokenizer):
    """The players take 60 MB each, and four times as much while they are trained."""
    process = psutil.Process()
    torch.manual_seed(0)
    ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    sizes = {"hidden_size": 640, "num_hidden_layers": 3, "num_attention_heads": 8, "intermediate_size": 1920}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **sizes, **ids))
    size = 4 * model.num_parameters()
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    del model
    changes = {
        f"{player}__{key}": value
        for player in ("prover", "verifier")
        for key, value in (("model", str(tmp_path / "model")), ("max_steps", 2), ("save_steps", None))
    }
    # New weights write nothing that ends: what the verifiers learn from is imported.
    rows = [
        {"problem_id": problem["problem_id"], "solution": write_solution(problem["difficulty"] + wrong)}
        for problem in RecallTask(num_train=60).problems("train")
        for wrong in (0, 1)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    changes["bootstrap__import_from"] = str(tmp_path / "rows.jsonl")
    levels = Levels(lambda: process.memory_info().rss)
    play(load_recipe(make_recipe(tmp_path, num_rounds=2, watchdogs__max_truncated=1.0, **changes)), callbacks=[levels])
    # The first round brings in what a library loads once; the second must find all as the first left it.
    growth = levels.before["round-001/evaluate"] - levels.before["round-000/evaluate"]
    assert size > 50 * 2**20
    assert growth < size / 2


@pytest.mark.gpu
def test_allocated_bytes_of_a_gpu_come_back(tmp_path, make_recipe):
    levels = Levels(torch.cuda.memory_allocated)
    play(load_recipe(make_recipe(tmp_path, num_rounds=1, device="auto")), callbacks=[levels])
    assert max([*levels.before.values(), torch.cuda.memory_allocated()]) - levels.before["bootstrap"] < 2**20
