"""Figures of a step by hand, and the log of steps, solutions and evaluations."""

import math

import pandas as pd
import pytest
import torch

from pvg_hf.data.schema import FAILED_OUTCOMES, Outcome
from pvg_hf.evaluation.role_figures import scored_rows
from pvg_hf.tasks.base import Grade
from pvg_hf.trainers.prover.metrics import RoleSignals, observed_metrics, role_metrics
from tests.support.prover_training import (
    grade_by_length,
    loss_lines,
    prover_trainer,
    read_completions,
    role_rows,
    score_texts,
)

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
    # Of those that did not fail, ranks of the scores 2, 4, 1, 3, 2, 0: 3.5, 6, 2, 5, 3.5, 1, of mean 3.5. The correct
    # ones deviate by 0 + 2.5 + 1.5 = 4; the ranks' squared deviations sum to 6.25 + 2.25 + 2.25 + 6.25 = 17,
    # correctness's to 3 * 3 / 6.
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
            "num_scored/helpful_correct": 2,
            "num_scored/helpful_incorrect": 1,
            "num_scored/sneaky_correct": 1,
            "num_scored/sneaky_incorrect": 2,
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


@pytest.mark.parametrize(("threshold", "rate"), [(-1.0, 2 / 2), (2.0, 1 / 2), (2.1, 0.0)])
def test_exploits_are_sneaky_incorrect_solutions_at_the_threshold_or_above(threshold, rate):
    assert _metrics(threshold=threshold)["exploit_rate"] == pytest.approx(rate)


def test_cells_without_a_solution_have_no_key():
    helpful_correct = _metrics(SOLUTIONS[:2], threshold=0.0)
    assert helpful_correct == pytest.approx(
        {
            "accuracy/helpful": 1,
            "judged_accuracy/helpful": 1,
            "reward/helpful": 1.5,
            "score/helpful_correct": 3,
            "num_scored/helpful_correct": 2,
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
    """Solutions that a step excludes from its scores are those that `scored_rows` excludes from the report."""
    is_failed = outcome in FAILED_OUTCOMES
    step = _metrics([(1, 0, 1, is_failed, 0, 2.0, 0.0)], threshold=0.0)
    rows = pd.DataFrame({"outcome": [outcome.value], "score": [2.0]})
    assert (
        ("score/sneaky_incorrect" in step)
        == ("exploit_rate" in step)
        == (len(scored_rows(rows)) == 1)
        == (not is_failed)
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
def test_rank_correlation_by_hand(scores, correct, correlation):
    solutions = [(0, c, 1, 0, 0, score, 0.0) for score, c in zip(scores, correct, strict=True)]
    assert _metrics(solutions)["score_correctness_correlation"] == pytest.approx(correlation)


def test_completions_are_logged_with_role_correctness_and_score(prover, tmp_path):
    prover_trainer(prover, tmp_path, settings={"max_steps": 2, "log_completions": True}).train()
    for step in (1, 2):
        table = read_completions(tmp_path, step)
        assert len(table) == 16
        for row in table.to_dict("records"):
            problem, role = row["prompt"].split("\n")[0], row["prompt"].split("\n")[1].split()[0]
            assert row["role"] == role
            grade, is_cut = grade_by_length({}, row["completion"]), row["outcome"] == "TRUNCATED"
            assert row["correct"] == (grade.correct and not is_cut)
            assert (row["outcome"] == "VERIFIED") == row["correct"]
            assert (row["outcome"] == "NO_ANSWER") == (grade.answer is None and not is_cut)
            assert row["score"] == pytest.approx(score_texts([problem], [row["completion"]])[0])


def test_a_step_logs_its_metrics(prover, tmp_path):
    settings = {
        "max_steps": 1,
        "log_completions": True,
        "acceptance_threshold": 0.5,
        "per_device_train_batch_size": 32,
    }
    trainer = prover_trainer(prover, tmp_path, settings=settings)
    trainer.train()
    (log,), table = loss_lines(trainer), read_completions(tmp_path)
    correct, answered = table["correct"], table["outcome"].isin(["VERIFIED", "PROOF_INVALID"])
    scores, rewards = table["score"], table["src"]
    for role in ("helpful", "sneaky"):
        mine = table["role"] == role
        assert log[f"accuracy/{role}"] == pytest.approx(correct[mine].mean())
        assert log[f"reward/{role}"] == pytest.approx(rewards[mine].mean())
        assert log[f"unanswered/{role}"] == log[f"failed/{role}"] == pytest.approx(1 - answered[mine].mean())
        assert log[f"judged_accuracy/{role}"] == pytest.approx(correct[mine & answered].mean())
        assert log[f"score/{role}_correct"] == pytest.approx(scores[mine & correct].mean())
        assert log[f"score/{role}_incorrect"] == pytest.approx(scores[mine & answered & ~correct].mean())
        assert log[f"truncated/{role}"] == pytest.approx((table["outcome"][mine] == "TRUNCATED").mean())
    wrong = (table["role"] == "sneaky") & answered & ~correct
    assert log["exploit_rate"] == pytest.approx((scores[wrong] > 0.5).mean())
    assert log["score_gap"] == pytest.approx(log["score/helpful_correct"] - log["score/sneaky_incorrect"])
    ranks = scores[answered].corr(correct[answered].astype(float), "spearman")
    assert log["score_correctness_correlation"] == pytest.approx(ranks)
    truncated = (log["truncated/helpful"] + log["truncated/sneaky"]) / 2  # as many rows in either role
    assert truncated == pytest.approx(log["completions/clipped_ratio"])
    assert 0 < truncated < 1


def test_a_role_that_is_not_trained_has_no_key(prover, tmp_path):
    trainer = prover_trainer(prover, tmp_path, rows=role_rows(["helpful"]), settings={"max_steps": 1})
    trainer.train()
    (log,) = loss_lines(trainer)
    assert "accuracy/helpful" in log
    assert not [key for key in log if "sneaky" in key or key in ("score_gap", "exploit_rate")]


def test_evaluation_has_separate_keys(prover, tmp_path):
    seen = []

    def grade(row, solution):
        seen.append((row["problem"], row["role"]))
        return grade_by_length(row, solution)

    settings = {"max_steps": 1, "per_device_eval_batch_size": 4, "num_generations_eval": 2}
    trainer = prover_trainer(prover, tmp_path, grader=grade, eval_dataset=role_rows(num_problems=1), settings=settings)
    trainer.train()
    seen.clear()
    trainer.evaluate()
    assert seen == [("Ana has 0 pens.", role) for role in ("helpful", "helpful", "sneaky", "sneaky")]
    (log,) = [line for line in trainer.state.log_history if "eval_loss" in line]
    assert {"eval_accuracy/helpful", "eval_accuracy/sneaky", "eval_reward/sneaky", "eval_kl_from_base"} <= log.keys()


def test_cgc_counts_the_solutions_that_play_their_role_below_its_floor(prover, tmp_path):
    settings = {"max_steps": 1, "log_completions": True, "reward": "cgc", "reward_options": {"floor": 2.5}}
    trainer = prover_trainer(prover, tmp_path, settings={**settings, "per_device_train_batch_size": 32})
    trainer.train()
    (log,), table = loss_lines(trainer), read_completions(tmp_path)
    answered = table["outcome"].isin(["VERIFIED", "PROOF_INVALID"])
    plays = (table["correct"] ^ (table["role"] == "sneaky")) & answered
    violations = (plays & (table["score"] <= 2.5)).sum()
    assert log["floor_violations"] == violations
    assert 0 < violations < plays.sum()


@pytest.mark.parametrize("correct", [True, False])
def test_an_evaluation_without_the_metric_of_the_best_model_is_not_the_best(correct, prover, tmp_path):
    """If all solutions are correct, there is no incorrect sneaky one, and no `score_gap`."""

    def grade(row, solution):
        return Grade(solution, correct or len(solution) % 2 == 0)

    settings = {"eval_strategy": "steps", "eval_steps": 1, "metric_for_best_model": "eval_score_gap", "max_steps": 1}
    settings |= {"per_device_eval_batch_size": 8, "num_generations_eval": 4}
    trainer = prover_trainer(prover, tmp_path, grader=grade, eval_dataset=role_rows(), settings=settings)
    trainer.train()
    found = [line["eval_score_gap"] for line in trainer.state.log_history if "eval_score_gap" in line]
    assert bool(found) != correct
    assert trainer.state.best_metric == (found[0] if found else None)


def test_an_unknown_metric_of_the_best_model_is_still_an_error(prover, tmp_path):
    settings = {"eval_strategy": "steps", "eval_steps": 1, "metric_for_best_model": "eval_scoregap", "max_steps": 1}
    with pytest.raises(KeyError, match="eval_scoregap"):
        prover_trainer(prover, tmp_path, eval_dataset=role_rows(), settings=settings).train()


def test_observed_metrics_replace_those_of_the_truth():
    metrics = {"accuracy/sneaky": 0.5, "score_gap": 1.0, "failed/sneaky": 0.25, "observed/accuracy/sneaky": 0.75}
    assert observed_metrics(metrics) == {"accuracy/sneaky": 0.75, "failed/sneaky": 0.25}


def test_metrics_of_observed_labels_leave_out_solutions_without_one():
    """Three sneaky solutions: a mistake labelled correct, a correct one without a label, a mistake labelled as one."""
    signals = RoleSignals(
        scores=torch.tensor([1.0, 2.0, 4.0]),
        correct=torch.tensor([False, True, False]),
        answered=torch.ones(3, dtype=torch.bool),
        failed=torch.zeros(3, dtype=torch.bool),
        sneaky=torch.ones(3, dtype=torch.bool),
        truncated=torch.zeros(3, dtype=torch.bool),
    )
    found = role_metrics(signals.with_labels(torch.tensor([1.0, torch.nan, 0.0])), torch.zeros(2))
    assert (found["accuracy/sneaky"], found["score/sneaky_correct"], found["score/sneaky_incorrect"]) == (
        0.5,
        1.0,
        4.0,
    )
