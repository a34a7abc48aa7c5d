"""Evaluation of a verifier: clean, uncorrected, and by source."""

import pytest
import torch

from tests.support.verifier_training import softplus, token_pairs, verifier_trainer


def test_evaluation_is_free_of_noise_and_correction(tmp_path, words):
    settings = {"noise_rho0": 0.45, "noise_rho1": 0.45, "correction": "forward", "center": 0.0}
    trainer = verifier_trainer(tmp_path, token_pairs(9), words, eval_dataset=token_pairs(9), **settings)
    metrics = trainer.evaluate()
    batch = trainer.data_collator([trainer.train_dataset[i] for i in range(9)])
    with torch.no_grad():
        scores = trainer.model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits[:, 0]
    expected = sum(softplus(-d) for d in (scores[:9] - scores[9:]).tolist()) / 9
    assert metrics["eval_loss"] == pytest.approx(expected, abs=1e-6)
    assert trainer.compute_loss(trainer.model.eval(), batch).item() == pytest.approx(expected, abs=1e-6)
    assert not any("flipped" in key for key in metrics)


def test_evaluation_by_source_and_clean_truth(tmp_path, words):
    eval_dataset = token_pairs(
        5,
        source=["base", "base", "sneaky", "sneaky", "sneaky"],
        chosen_correct=[True, False, True, True, True],
        rejected_correct=[False, True, False, False, True],
    )
    trainer = verifier_trainer(
        tmp_path, token_pairs(16), words, eval_dataset=eval_dataset, max_steps=10, per_device_eval_batch_size=2
    )
    trainer.train()
    metrics = trainer.evaluate()
    assert metrics["eval_accuracy"] == 1.0  # "good" before "bad" is learned
    expected = {"clean_accuracy": 3 / 4, "clean_accuracy/base": 1 / 2, "clean_accuracy/sneaky": 1.0}
    expected |= {"accuracy/base": 1.0, "accuracy/sneaky": 1.0}
    expected |= {"num_pairs": 5, "num_pairs/base": 2, "num_pairs/sneaky": 3, "num_clean_pairs/sneaky": 2}
    for key, value in expected.items():
        assert metrics[f"eval_{key}"] == value, key
    logged = trainer.state.log_history[-1]
    assert logged["eval_clean_accuracy/base"] == 1 / 2
    assert {"eval_min_reward", "eval_margin", "eval_num_tokens", "eval_loss"} <= logged.keys()


def test_a_dict_of_sets_keeps_its_metrics_apart(tmp_path, words):
    sets = {"long": token_pairs(3), "short": token_pairs(2)}
    trainer = verifier_trainer(tmp_path, token_pairs(4), words, eval_dataset=sets)
    metrics = trainer.evaluate()
    assert (metrics["eval_long_num_pairs"], metrics["eval_short_num_pairs"]) == (3, 2)
    assert {"eval_long_accuracy", "eval_short_accuracy", "eval_long_loss"} <= metrics.keys()
    assert "eval_accuracy" not in metrics


def test_evaluation_during_training(tmp_path, words):
    trainer = verifier_trainer(
        tmp_path,
        token_pairs(8),
        words,
        eval_dataset=token_pairs(3),
        eval_strategy="steps",
        eval_steps=1,
        max_steps=2,
    )
    trainer.train()
    assert [entry["eval_num_pairs"] for entry in trainer.state.log_history if "eval_num_pairs" in entry] == [3, 3]
