import math

import pytest
import torch

from pvg_hf.trainers.role_metrics import RoleSignals, role_metrics

# (sneaky, correct, answered, truncated, score, reward)
SOLUTIONS = [
    (0, 1, 1, 0, 2.0, 1.0),
    (0, 1, 1, 0, 4.0, 2.0),
    (0, 0, 1, 0, 1.0, -1.0),
    (0, 0, 0, 1, -1.0, -1.5),
    (1, 1, 1, 0, 3.0, -1.0),
    (1, 0, 1, 0, 2.0, 1.0),
    (1, 0, 0, 1, 5.0, -3.0),
    (1, 0, 1, 0, 0.0, -1.0),
]


def _metrics(solutions=SOLUTIONS, threshold: float | None = None) -> dict[str, float]:
    sneaky, correct, answered, truncated, scores, rewards = (torch.tensor(column) for column in zip(*solutions))
    flags = {"sneaky": sneaky, "correct": correct, "answered": answered, "truncated": truncated}
    return role_metrics(RoleSignals(scores, **{key: flag.bool() for key, flag in flags.items()}), rewards, threshold)


def test_metrics_by_hand():
    # Ranks of the scores 2, 4, 1, -1, 3, 2, 5, 0: 4.5, 7, 3, 1, 6, 4.5, 8, 2, of mean 4.5. The correct ones deviate by
    # 0 + 2.5 + 1.5 = 4; the ranks' squared deviations sum to 203.5 - 8 * 4.5^2 = 41.5, correctness's to 3 * 5 / 8.
    correlation = 4 / math.sqrt(41.5 * 15 / 8)
    assert _metrics() == pytest.approx(
        {
            "accuracy/helpful": 2 / 4,
            "accuracy/sneaky": 1 / 4,
            "reward/helpful": (1 + 2 - 1 - 1.5) / 4,
            "reward/sneaky": (-1 + 1 - 3 - 1) / 4,
            "score/helpful_correct": (2 + 4) / 2,
            "score/helpful_incorrect": (1 - 1) / 2,
            "score/sneaky_correct": 3,
            "score/sneaky_incorrect": (2 + 5 + 0) / 3,
            "truncated/helpful": 1 / 4,
            "truncated/sneaky": 1 / 4,
            "unanswered/helpful": 1 / 4,
            "unanswered/sneaky": 1 / 4,
            "valid_sneaky": 2 / 4,
            "score_gap": 3 - 7 / 3,
            "score_correctness_correlation": correlation,
        }
    )


@pytest.mark.parametrize(("threshold", "rate"), [(-1.0, 3 / 3), (1.9, 2 / 3), (2.0, 1 / 3), (5.0, 0.0)])
def test_exploits_are_sneaky_incorrect_solutions_strictly_above_the_threshold(threshold, rate):
    assert _metrics(threshold=threshold)["exploit_rate"] == pytest.approx(rate)


def test_cells_without_a_solution_have_no_key():
    helpful_correct = _metrics(SOLUTIONS[:2], threshold=0.0)
    assert helpful_correct == pytest.approx(
        {
            "accuracy/helpful": 1,
            "reward/helpful": 1.5,
            "score/helpful_correct": 3,
            "truncated/helpful": 0,
            "unanswered/helpful": 0,
        }
    )
    without_sneaky_incorrect = _metrics(SOLUTIONS[:5], threshold=0.0)
    assert "exploit_rate" not in without_sneaky_incorrect
    assert "score_gap" not in without_sneaky_incorrect
    assert without_sneaky_incorrect["valid_sneaky"] == 0


@pytest.mark.parametrize(
    ("scores", "correct", "correlation"),
    [
        ([1.0, 2.0], [0, 1], 1.0),
        ([1.0, 2.0], [1, 0], -1.0),
        (
            [1.0, 2.0, 300.0, 4.0],
            [0, 0, 1, 1],
            2 / math.sqrt(5),
        ),  # of ranks: 300 weighs no more than 4. 2 / sqrt(5 * 1)
        ([3.0, 3.0, 3.0], [0, 1, 1], 0.0),
        ([1.0, 1.0, 2.0, 2.0], [0, 1, 0, 1], 0.0),  # ties cancel whatever their order
        ([1.0, 1.0, 2.0, 2.0], [1, 0, 1, 0], 0.0),
    ],
)
def test_correlation_of_ranks(scores, correct, correlation):
    solutions = [(0, c, 1, 0, score, 0.0) for score, c in zip(scores, correct, strict=True)]
    assert _metrics(solutions)["score_correctness_correlation"] == pytest.approx(correlation)
