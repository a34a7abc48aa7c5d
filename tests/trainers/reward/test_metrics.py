"""Figures of pairs by hand, and the evaluation of a verifier: clean, uncorrected, and by source."""

import numpy as np
import pytest
import torch

from pvg_hf.evaluation.verifier_quality import pair_wins
from pvg_hf.trainers.reward.metrics import ScoredPair, pair_metrics, scored_pairs, unique_pairs
from tests.support.verifier_training import softplus, token_pairs, verifier_trainer

PAIRS = [
    ScoredPair(0, chosen=2.0, rejected=1.0, clean_order=1, source="base"),
    ScoredPair(
        1, chosen=0.0, rejected=3.0, clean_order=-1, source="base"
    ),  # labelled the wrong way round, judged right
    ScoredPair(2, chosen=1.0, rejected=1.0, clean_order=1, source="sneaky"),  # equal scores count half
    ScoredPair(3, chosen=5.0, rejected=-1.0, clean_order=0, source="sneaky"),  # truly a tie
]


def test_metrics_by_hand():
    assert pair_metrics(PAIRS) == pytest.approx(
        {
            "min_reward": -1.0,
            "mean_reward": (2 + 1 + 0 + 3 + 1 + 1 + 5 - 1) / 8,
            "max_reward": 5.0,
            "margin": (1 - 3 + 0 + 6) / 4,
            "accuracy": 2.5 / 4,
            "num_pairs": 4,
            "clean_accuracy": 2.5 / 3,
            "num_clean_pairs": 3,
            "accuracy/base": 1 / 2,
            "num_pairs/base": 2,
            "clean_accuracy/base": 2 / 2,
            "num_clean_pairs/base": 2,
            "accuracy/sneaky": 1.5 / 2,
            "num_pairs/sneaky": 2,
            "clean_accuracy/sneaky": 0.5 / 1,
            "num_clean_pairs/sneaky": 1,
        }
    )


def test_ties_count_as_in_the_report():
    """The trainer's accuracy and the evaluation's pair accuracy are the same figure of the same pairs."""
    scores = [(2.0, 1.0), (1.0, 1.0), (0.0, 1.0), (0.5, 0.5)]
    pairs = [ScoredPair(row, *both) for row, both in enumerate(scores)]
    chosen, rejected = np.array(scores).T
    assert pair_metrics(pairs)["accuracy"] == pair_wins(chosen, rejected).mean() == 0.5


def test_without_clean_truths_the_order_of_the_dataset_is_the_truth():
    metrics = pair_metrics([ScoredPair(0, 1.0, 0.0), ScoredPair(1, 0.0, 1.0), ScoredPair(2, 2.0, 1.0)])
    assert metrics["clean_accuracy"] == metrics["accuracy"] == pytest.approx(2 / 3)
    assert not any("/" in key for key in metrics)


def test_only_ties_have_no_clean_accuracy():
    metrics = pair_metrics([ScoredPair(0, 1.0, 0.0, clean_order=0)])
    assert metrics["num_clean_pairs"] == 0
    assert "clean_accuracy" not in metrics


def test_repeated_rows_count_once():
    assert unique_pairs([PAIRS[2], PAIRS[0], PAIRS[2], PAIRS[1], PAIRS[0]]) == PAIRS[:3]


def test_pairs_of_a_batch_by_hand():
    batch = {
        "row_index": torch.tensor([7, 8]),
        "clean_order": torch.tensor([1, 0]),
        "source": ["base", "sneaky"],
        "margin": torch.tensor([0.5, 0.0]),
    }
    pairs = scored_pairs(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), batch)
    assert pairs == [ScoredPair(7, 1.0, 3.0, 1, "base", 0.5), ScoredPair(8, 2.0, 4.0, 0, "sneaky", 0.0)]


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


def test_evaluation_runs_during_training(tmp_path, words):
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
