"""Two processes train a verifier as one does."""

import json

import pytest
import torch
from datasets import Dataset
from transformers import LlamaForSequenceClassification

from tests.support.two_processes import run_on_two_processes
from tests.support.verifier_step import NUM_EVAL_PAIRS, SETTINGS, STEP
from tests.support.verifier_training import llama, make_tokenizer, token_pairs, verifier_trainer
from tests.support.weights import weights_of

pytestmark = pytest.mark.slow

TIMED = ("runtime", "per_second", "preparation_time")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A verifier, its pairs, and what two processes made of them."""
    folder = tmp_path_factory.mktemp("processes")
    model = llama()
    with torch.no_grad():
        model.score.weight *= 50  # scores that differ
    model.save_pretrained(folder / "base")
    rows = token_pairs(8, source=["base", "base", "sneaky", "sneaky", "sneaky"] + ["base"] * 3)
    (folder / "rows.json").write_text(json.dumps(rows.to_list()))
    return folder


@pytest.fixture(scope="module")
def results(folder):
    words = make_tokenizer(eos_token="[EOS]")
    words.save_pretrained(folder / "base")
    run_on_two_processes("verifier_step.py", folder)
    return json.loads((folder / "results.json").read_text())


@pytest.mark.parametrize("name", SETTINGS)
def test_two_processes_count_every_pair_once_and_take_the_step_of_one(name, folder, results, words, tmp_path):
    result = results[name]
    assert result["num_processes"] == 2
    rows = Dataset.from_list(json.loads((folder / "rows.json").read_text()))
    model = LlamaForSequenceClassification.from_pretrained(folder / "base")
    eval_rows = rows.select(range(NUM_EVAL_PAIRS))
    trainer = verifier_trainer(tmp_path, rows, words, model, eval_dataset=eval_rows, **STEP, **SETTINGS[name])

    expected = {key: value for key, value in trainer.evaluate().items() if not key.endswith(TIMED)}
    assert expected["eval_num_pairs"] == NUM_EVAL_PAIRS
    assert {key: result["before"][key] for key in expected} == pytest.approx(expected, abs=1e-5)
    trainer.train()
    step = trainer.state.log_history[0]
    assert "loss" in step
    assert {key: result["log"][0][key] for key in step} == pytest.approx(step, abs=1e-5)
    trained = LlamaForSequenceClassification.from_pretrained(folder / name)
    for key, weight in weights_of(trainer.model).items():
        torch.testing.assert_close(trained.get_parameter(key), weight, atol=1e-6, rtol=1e-5)
