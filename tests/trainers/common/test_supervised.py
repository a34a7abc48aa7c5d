import logging

import pytest
import torch
from datasets import Dataset

from pvg_hf.core.seeding import derive_rng
from pvg_hf.models.prover_model import load_prover
from pvg_hf.tasks import PromptBuilder
from pvg_hf.tasks.arithmetic import ArithmeticTask
from pvg_hf.trainers.common.supervised import FineTuning, fine_tune
from tools.pretraining.solution_texts import CorpusConfig, sample_text


@pytest.fixture(scope="module")
def rows() -> Dataset:
    rng, prompts = derive_rng(0, "supervised"), PromptBuilder(ArithmeticTask())
    drawn = [sample_text(rng, CorpusConfig(max_difficulty=3)) for _ in range(16)]
    return Dataset.from_list(
        [
            {"prompt": prompts.text({"problem": puzzle.text, "reference": ""}, role), "completion": solution}
            for puzzle, role, solution in drawn
        ]
    )


def _fine_tune(tiny_prover, rows, tmp_path, **settings):
    model, tokenizer = load_prover(tiny_prover)
    values = {"max_steps": 6, "batch_size": 16, "learning_rate": 1e-2, "max_length": 160, "seed": 0, **settings}
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    log = fine_tune(
        model, tokenizer, rows, FineTuning(output_dir=str(tmp_path), use_cpu=True, show_progress=False, **values)
    )
    return before, model, [line for line in log if "loss" in line]


@torch.inference_mode()
def _completion_loss(tiny_prover, rows) -> float:
    """Mean over all completions' tokens and end tokens, one row in one forward."""
    model, tokenizer = load_prover(tiny_prover)
    losses = []
    for row in rows:
        prompt = tokenizer(row["prompt"])["input_ids"]
        completion = [*tokenizer(row["completion"])["input_ids"], tokenizer.eos_token_id]
        logits = model(input_ids=torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1]
        losses += torch.nn.functional.cross_entropy(logits, torch.tensor(completion), reduction="none").tolist()
    return sum(losses) / len(losses)


def test_the_loss_is_that_of_completions_and_end_tokens(tiny_prover, rows, tmp_path):
    _, _, log = _fine_tune(tiny_prover, rows, tmp_path, max_steps=1)
    assert log[0]["loss"] == pytest.approx(_completion_loss(tiny_prover, rows), rel=1e-4)


@pytest.mark.parametrize("keeps_order", [True, False])
def test_the_loss_falls_and_every_weight_moves(keeps_order, tiny_prover, rows, tmp_path):
    before, model, log = _fine_tune(tiny_prover, rows, tmp_path, keeps_order=keeps_order)
    assert len(log) == 6
    assert log[-1]["loss"] < 0.9 * log[0]["loss"]
    assert not [name for name, parameter in model.named_parameters() if parameter.equal(before[name])]


def test_the_order_of_the_rows_is_kept_if_requested(tiny_prover, rows, tmp_path):
    _, _, log = _fine_tune(tiny_prover, rows, tmp_path, max_steps=1, batch_size=4, keeps_order=True)
    assert log[0]["loss"] == pytest.approx(_completion_loss(tiny_prover, rows.select(range(4))), rel=1e-4)


def test_rows_whose_prompt_fills_the_maximum_length_are_counted_and_left_out(tiny_prover, rows, tmp_path, caplog):
    tokenizer = load_prover(tiny_prover)[1]
    lengths = sorted(len(tokenizer(prompt)["input_ids"]) for prompt in rows["prompt"])
    with caplog.at_level(logging.WARNING, logger="pvg_hf.trainers.common.supervised"):
        _fine_tune(tiny_prover, rows, tmp_path, max_steps=1, max_length=lengths[-1] + 1)
        assert not caplog.records
        _fine_tune(tiny_prover, rows, tmp_path, max_steps=1, max_length=lengths[-1])
    num_filled = lengths.count(lengths[-1])
    assert f"{num_filled} of 16 prompts have `max_length` = {lengths[-1]} tokens or more" in caplog.text
    with pytest.raises(ValueError, match=f"16 of 16 prompts have `max_length` = {lengths[0]} tokens"):
        _fine_tune(tiny_prover, rows, tmp_path, max_length=lengths[0])


def test_a_loss_that_is_not_finite_ends_the_training(tiny_prover, rows, tmp_path):
    """
    The learning rate is 0 in the first step and 1e30 in the second, so that the third is the first to use the new
    weights.
    """
    with pytest.raises(FloatingPointError, match="step 3 is nan"):
        _fine_tune(tiny_prover, rows, tmp_path, learning_rate=1e30)


def test_no_checkpoint_is_left_in_the_folder(tiny_prover, rows, tmp_path):
    _fine_tune(tiny_prover, rows, tmp_path, max_steps=1)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_no_deprecated_setting_is_used(tiny_prover, rows, tmp_path, recwarn):
    _fine_tune(tiny_prover, rows, tmp_path, max_steps=1)
    assert not [str(warning.message) for warning in recwarn if warning.category is FutureWarning]
