import pytest
import torch

from pvg_hf.trainers.reward.metrics import ScoredPair, pair_metrics, scored_pairs, unique_pairs

PAIRS = [
    ScoredPair(0, chosen=2.0, rejected=1.0, clean_order=1, source="base"),
    ScoredPair(
        1, chosen=0.0, rejected=3.0, clean_order=-1, source="base"
    ),  # labelled the wrong way round, judged right
    ScoredPair(2, chosen=1.0, rejected=1.0, clean_order=1, source="sneaky"),  # equal scores judge nothing
    ScoredPair(3, chosen=5.0, rejected=-1.0, clean_order=0, source="sneaky"),  # truly a tie
]


def test_metrics_by_hand():
    assert pair_metrics(PAIRS) == pytest.approx(
        {
            "min_reward": -1.0,
            "mean_reward": (2 + 1 + 0 + 3 + 1 + 1 + 5 - 1) / 8,
            "max_reward": 5.0,
            "margin": (1 - 3 + 0 + 6) / 4,
            "accuracy": 2 / 4,
            "num_pairs": 4,
            "clean_accuracy": 2 / 3,
            "num_clean_pairs": 3,
            "accuracy/base": 1 / 2,
            "num_pairs/base": 2,
            "clean_accuracy/base": 2 / 2,
            "num_clean_pairs/base": 2,
            "accuracy/sneaky": 1 / 2,
            "num_pairs/sneaky": 2,
            "clean_accuracy/sneaky": 0 / 1,
            "num_clean_pairs/sneaky": 1,
        }
    )


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


def test_pairs_of_a_batch():
    batch = {
        "row_index": torch.tensor([7, 8]),
        "clean_order": torch.tensor([1, 0]),
        "source": ["base", "sneaky"],
        "margin": torch.tensor([0.5, 0.0]),
    }
    pairs = scored_pairs(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), batch)
    assert pairs == [ScoredPair(7, 1.0, 3.0, 1, "base", 0.5), ScoredPair(8, 2.0, 4.0, 0, "sneaky", 0.0)]
