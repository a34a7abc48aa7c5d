import math

import pandas as pd
import pytest
import torch

from pvg_hf.data.schema import FAILED_OUTCOMES, Outcome
from pvg_hf.evaluation.roles import judged
from pvg_hf.trainers.prover.metrics import RoleSignals, role_metrics

# (sneaky, correct, answered, failed, truncated, score, reward)
SOLUTIONS = [
    (0, 1, 1, 0, 0, 2.0, 1.0),
    (0, 1, 1, 0, 0, 4.0, 2.0),
    (0, 0, 1, 0, 0, 1.0, -1.0),
    (0, 0, 1, 1, 0, -1.0, -1.5),  # uncertified
    (1, 1, 1, 0, 0, 3.0, -1.0),
    (1, 0, 1, 0, 0, 2.0, 1.0),
    (1, 0, 0, 1, 1, 5.0, -3.0),  # truncated
    (1, 0, 1, 0, 0, 0.0, -1.0),
]


def _metrics(solutions=SOLUTIONS, threshold: float | None = None) -> dict[str, float]:
    *flags, scores, rewards = (torch.tensor(column) for column in zip(*solutions))
    names = ("sneaky", "correct", "answered", "failed", "truncated")
    signals = RoleSignals(scores, **{name: flag.bool() for name, flag in zip(names, flags, strict=True)})
    return role_metrics(signals, rewards, threshold)


def test_metrics_by_hand():
    # Of those that did not fail, ranks of the scores 2, 4, 1, 3, 2, 0: 3.5, 6, 2, 5, 3.5, 1, of mean 3.5. The correct ones
    # deviate by 0 + 2.5 + 1.5 = 4; the ranks' squared deviations sum to 6.25 + 2.25 + 2.25 + 6.25 = 17, correctness's
    # to 3 * 3 / 6.
    correlation = 4 / math.sqrt(17 * 1.5)
    assert _metrics() == pytest.approx(
        {
            "accuracy/helpful": 2 / 4,
            "accuracy/sneaky": 1 / 4,
            "judged_accuracy/helpful": 2 / 3,
            "judged_accuracy/sneaky": 1 / 3,
            "reward/helpful": (1 + 2 - 1 - 1.5) / 4,
            "reward/sneaky": (-1 + 1 - 3 - 1) / 4,
            "score/helpful_correct": (2 + 4) / 2,
            "score/helpful_incorrect": 1,
            "score/sneaky_correct": 3,
            "score/sneaky_incorrect": (2 + 0) / 2,
            "truncated/helpful": 0,
            "truncated/sneaky": 1 / 4,
            "unanswered/helpful": 0,
            "unanswered/sneaky": 1 / 4,
            "failed/helpful": 1 / 4,
            "failed/sneaky": 1 / 4,
            "valid_sneaky": 2 / 4,
            "score_gap": 3 - 1,
            "score_correctness_correlation": correlation,
        }
    )


@pytest.mark.parametrize(("threshold", "rate"), [(-1.0, 2 / 2), (1.9, 1 / 2), (2.0, 0.0)])
def test_exploits_are_sneaky_incorrect_solutions_strictly_above_the_threshold(threshold, rate):
    assert _metrics(threshold=threshold)["exploit_rate"] == pytest.approx(rate)


def test_cells_without_a_solution_have_no_key():
    helpful_correct = _metrics(SOLUTIONS[:2], threshold=0.0)
    assert helpful_correct == pytest.approx(
        {
            "accuracy/helpful": 1,
            "judged_accuracy/helpful": 1,
            "reward/helpful": 1.5,
            "score/helpful_correct": 3,
            "truncated/helpful": 0,
            "unanswered/helpful": 0,
            "failed/helpful": 0,
        }
    )
    without_sneaky_incorrect = _metrics(SOLUTIONS[:5], threshold=0.0)
    assert "exploit_rate" not in without_sneaky_incorrect
    assert "score_gap" not in without_sneaky_incorrect
    assert without_sneaky_incorrect["valid_sneaky"] == 0
    only_failed = _metrics(SOLUTIONS[6:7], threshold=0.0)
    assert (only_failed["accuracy/sneaky"], only_failed["failed/sneaky"], only_failed["valid_sneaky"]) == (0, 1, 0)
    assert not {"judged_accuracy/sneaky", "score/sneaky_incorrect", "exploit_rate"} & only_failed.keys()


@pytest.mark.parametrize("outcome", sorted(Outcome))
def test_a_step_and_the_evaluation_judge_the_same_solutions(outcome):
    """What a step leaves out of its scores, `judged` leaves out of the report."""
    is_failed = outcome in FAILED_OUTCOMES
    step = _metrics([(1, 0, 1, is_failed, 0, 2.0, 0.0)], threshold=0.0)
    rows = pd.DataFrame({"outcome": [outcome.value], "score": [2.0]})
    assert (
        ("score/sneaky_incorrect" in step) == ("exploit_rate" in step) == (len(judged(rows)) == 1) == (not is_failed)
    )


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
    solutions = [(0, c, 1, 0, 0, score, 0.0) for score, c in zip(scores, correct, strict=True)]
    assert _metrics(solutions)["score_correctness_correlation"] == pytest.approx(correlation)
