"""The watchdog on a rise of false positives."""

import math

import pytest

from pvg_hf.config.sections import WatchdogConfig
from pvg_hf.core.acceptance import Acceptance
from pvg_hf.game.watchdogs import FalsePositiveWatch

NO_LABEL = math.nan


def graded(problem, *, role="helpful", correct=False, failed=False, score=0.0, label=0.0):
    return {"problem_id": problem, "role": role, "correct": correct, "failed": failed, "score": score, "label": label}


def wrong_ones(step, num_accepted, role="helpful"):
    """Eight problems with four wrong solutions each, of which the labels accept the first `num_accepted`."""
    return [
        graded(f"{step}-{problem}", role=role, label=float(index < num_accepted))
        for problem in range(8)
        for index in range(4)
    ]


class Watched:
    def __init__(self, folder, last_step=2, has_checker=True, pays_scores=True, **config):
        self.alerts = []
        self.watch = FalsePositiveWatch(
            WatchdogConfig(**config),
            folder,
            lambda kind, message: self.alerts.append((kind, message)),
            last_step=last_step,
            acceptance=Acceptance(1.0),
            has_checker=has_checker,
            pays_scores=pays_scores,
        )

    def train(self, accepted, begin=0, role="helpful") -> list[bool]:
        """Train a step for each number of accepted solutions; a step's log comes after it."""
        self.watch.begin(begin)
        ends = []
        for step, number in enumerate(accepted, start=begin):
            self.watch.observe(step, wrong_ones(step, number, role))
            ends.append(self.watch.update(step + 1, {}) is not None)
        return ends


def test_a_rise_is_reported_once_after_the_last_early_step(tmp_path):
    watched = Watched(tmp_path)
    assert watched.train([1, 2, 4, 4, 4]) == [False] * 5
    assert watched.alerts == [
        (
            "rise_of_false_positives",
            (
                "Step 3: the labels accept 75% of the helpful role's wrong solutions since the first step, 25% before"
                " it. A rise of 30% or more is typical of a training that collapses."
            ),
        )
    ]


def test_a_rise_ends_the_phase_if_the_recipe_says_so(tmp_path):
    assert Watched(tmp_path, false_positives="stop").train([1, 4, 4, 4]) == [False, False, True, True]


@pytest.mark.parametrize(
    ("accepted", "changes"),
    [
        ([1, 2, 2, 4], {}),  # .25 more in the first part; what comes later does not count
        ([1, 4, 4, 4], {"max_false_positive_rise": 0.8}),
        ([1, 4, 4, 4], {"false_positives": "off"}),
    ],
)
def test_small_late_or_ignored_rises_raise_no_alert(tmp_path, accepted, changes):
    watched = Watched(tmp_path, **changes)
    watched.train(accepted)
    assert watched.alerts == []


def test_sneaky_solutions_raise_no_alert(tmp_path):
    watched = Watched(tmp_path)
    watched.train([1, 4, 4, 4], role="sneaky")
    assert watched.alerts == []


def test_a_resumed_training_compares_what_the_first_start_wrote(tmp_path):
    whole = Watched(tmp_path / "whole")
    whole.train([1, 4, 4, 4])
    Watched(tmp_path / "resumed").train([1, 4, 0])  # the checkpoint is older than the last step
    resumed = Watched(tmp_path / "resumed")
    resumed.train([4, 4], begin=2)
    assert resumed.alerts == whole.alerts != []
    files = [(tmp_path / name / "wrong-solutions.jsonl").read_bytes() for name in ("whole", "resumed")]
    assert files[0] == files[1]


def test_a_training_that_resumes_after_the_comparison_repeats_its_alert_in_the_same_words(tmp_path):
    """`PhaseContext.alert` leaves out an alert that the run already has. The logged steps are reported again first."""
    first, resumed = Watched(tmp_path), Watched(tmp_path)
    first.train([1, 2, 4, 4, 4])
    resumed.watch.begin(4)
    assert [resumed.watch.update(step, {}) for step in range(1, 5)] == [None] * 4
    assert resumed.alerts == first.alerts != []


def test_wrong_solutions_with_a_label_are_counted(tmp_path):
    watched = Watched(tmp_path)
    watched.watch.begin(0)
    solutions = [
        graded("a", score=2.0, label=1.0),
        graded("a", score=0.5, label=NO_LABEL),  # the checker abstained
        graded("a", score=2.0, correct=True, label=1.0),
        graded("a", score=2.0, failed=True, label=0.0),
        graded("a", role="sneaky", score=2.0, label=0.0),
    ]
    watched.watch.observe(0, solutions)
    rows = {(row["checker"], row["role"]): (row["wrong"], row["accepted"]) for row in watched.watch._journal.read()}
    assert rows == {
        ("verifier", "helpful"): (2, 1),
        ("labels", "helpful"): (1, 1),
        ("verifier", "sneaky"): (1, 1),
        ("labels", "sneaky"): (1, 0),
    }


@pytest.mark.parametrize(("pays_scores", "kinds"), [(True, ["rise_of_false_positives"]), (False, [])])
def test_the_verifier_raises_an_alert_only_where_scores_of_mistakes_are_paid(tmp_path, pays_scores, kinds):
    watched = Watched(tmp_path, has_checker=False, pays_scores=pays_scores)
    watched.watch.begin(0)
    for step, number in enumerate([1, 4, 4, 4]):
        watched.watch.observe(step, [{**one, "score": 2 * one["label"]} for one in wrong_ones(step, number)])
        watched.watch.update(step + 1, {})
    assert [kind for kind, _ in watched.alerts] == kinds


def test_without_noise_only_the_verifier_is_watched(tmp_path):
    watched = Watched(tmp_path, has_checker=False)
    watched.train([1, 4, 4, 4])
    assert watched.alerts == []
    assert {row["checker"] for row in watched.watch._journal.read()} == {"verifier"}
