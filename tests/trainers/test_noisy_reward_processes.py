"""Two processes train a verifier as one does."""

import json

import pytest
import torch
from transformers import LlamaForSequenceClassification
from two_processes import run_on_two_processes
from verifier_step import NUM_EVAL_PAIRS, STEP
from verifier_training import flips, llama, token_pairs, verifier_trainer
from weights import weights_of


def test_two_processes_count_every_pair_once_and_take_the_step_of_one(tmp_path, words):
    model = llama()
    model.save_pretrained(tmp_path / "base")
    words.save_pretrained(tmp_path / "base")
    rows = token_pairs(8, source=["base", "base", "sneaky", "sneaky", "sneaky"] + ["base"] * 3)
    (tmp_path / "rows.json").write_text(json.dumps(rows.to_list()))
    run_on_two_processes("verifier_step.py", tmp_path)
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["num_processes"] == 2

    trainer = verifier_trainer(tmp_path, rows, words, model, eval_dataset=rows.select(range(NUM_EVAL_PAIRS)), **STEP)
    timed = ("runtime", "per_second", "preparation_time")
    expected = {key: value for key, value in trainer.evaluate().items() if not key.endswith(timed)}
    assert expected["eval_num_pairs"] == NUM_EVAL_PAIRS
    assert {key: result["before"][key] for key in expected} == pytest.approx(expected, abs=1e-6)
    trainer.train()
    assert result["log"][0]["flipped"] == pytest.approx(flips(trainer)[0])
    trained = LlamaForSequenceClassification.from_pretrained(tmp_path / "trained")
    for name, weight in weights_of(trainer.model).items():
        torch.testing.assert_close(trained.get_parameter(name), weight, atol=1e-6, rtol=0)
