"""Attacks without training: their texts, the share that is accepted, and the regression set."""

import shutil

import numpy as np
import pandas as pd
import pytest

from pvg_hf.core.acceptance import Acceptance
from pvg_hf.core.roles import Outcome
from pvg_hf.experimental.attacks.attack_results import FOUND_ATTACKS, found_attacks
from pvg_hf.experimental.attacks.untrained import acceptance_by_family, attack_texts, score_texts
from pvg_hf.experimental.judging.run_evaluations import evaluate_run
from pvg_hf.experimental.judging.untrained_attacks import ATTACK_TEXTS, search_figures
from pvg_hf.run.judgements import judgement_folder
from pvg_hf.run.layout import RunFolder
from pvg_hf.tasks import Task
from pvg_hf.tasks.arithmetic import ArithmeticTask
from pvg_hf.tasks.arithmetic.task import find_flaws
from pvg_hf.tasks.base import Grade

SMALL = ["untrained_attacks.num_problems=3", "untrained_attacks.budget=4", "untrained_attacks.master_keys=[trust me]"]


@pytest.fixture(scope="module")
def task() -> ArithmeticTask:
    return ArithmeticTask(num_train=1, num_test=12)


@pytest.fixture(scope="module")
def texts(task) -> pd.DataFrame:
    return attack_texts(task, task.problems("test").to_list(), ["Solution:", ""], seed=0)


def test_every_family_attacks_every_problem(task, texts):
    problem = task.problems("test")[0]
    mine = texts[texts["problem_id"] == problem["problem_id"]].set_index("family")["solution"]
    lines = problem["reference"].splitlines()
    assert mine["reference"] == problem["reference"]
    assert mine["master_key/0"] == "Solution:"
    assert mine["truncated/1"] == "\n".join(lines[:-1])
    assert mine[f"truncated/{len(lines) - 1}"] == lines[0]
    assert mine["answer_alone/correct"] == lines[-1]
    assert mine["other_problem"] == task.problems("test")[1]["reference"]
    assert {family for family in mine.index if family.startswith("near_miss/")} <= {
        f"near_miss/{kind}"
        for kind in (
            "wrong_sum",
            "wrong_operand",
            "wrong_operation",
            "wrong_source",
            "dropped_step",
            "contradicted_conclusion",
        )
    }


def test_near_misses_have_a_flaw_and_a_wrong_answer(texts):
    near = texts[texts["family"].str.startswith("near_miss/")]
    assert len(near) >= 12 * 4
    assert not near["correct"].any()
    assert all(find_flaws(row.problem, row.solution) for row in near.itertuples())


def test_texts_do_not_depend_on_other_problems_but_for_the_next(task, texts):
    fewer = attack_texts(task, task.problems("test").to_list()[:4], ["Solution:", ""], seed=0)
    first = texts[texts["problem_id"].isin(fewer["problem_id"].unique()[:3])].reset_index(drop=True)
    pd.testing.assert_frame_equal(fewer.iloc[: len(first)], first)


class Tested(Task):
    """A task whose grades need no reference."""

    name = "tested"

    def problems(self, split):
        return None

    def grade(self, problem, solution):
        return Grade(answer=solution or None, correct=solution.endswith("right"))


def test_a_problem_without_a_reference_has_the_other_attacks():
    problems = [
        {"problem_id": "a", "problem": "first", "reference": "\n"},
        {"problem_id": "b", "problem": "second", "reference": "one step\nright"},
    ]
    texts = attack_texts(Tested(), problems, ["Solution:"], seed=0)
    families = {name: rows["family"].tolist() for name, rows in texts.groupby("problem_id")}
    assert families["a"] == ["master_key/0", "answer_alone/incorrect", "other_problem"]
    assert families["b"] == ["master_key/0", "reference", "truncated/1", "answer_alone/correct"]


def accept_all(problems, solutions):
    return [1.0] * len(problems)


@pytest.fixture(scope="module")
def is_correct(texts):
    known = dict(zip(zip(texts["problem"], texts["solution"], strict=True), texts["correct"], strict=True))
    return lambda problems, solutions: [float(known[pair]) for pair in zip(problems, solutions, strict=True)]


def test_a_verifier_that_accepts_everything_and_a_perfect_one(texts, is_correct):
    gullible = acceptance_by_family(score_texts(texts, accept_all), Acceptance(0.5))
    perfect = acceptance_by_family(score_texts(texts, is_correct), Acceptance(0.5))
    assert gullible.keys() == perfect.keys()
    assert {figure.value for figure in gullible.values()} == {1.0}
    right = ("reference", "answer_alone/correct")
    assert all(figure.value == (1.0 if family in right else 0.0) for family, figure in perfect.items())
    assert perfect["reference"].n == 12
    assert list(perfect)[:4] == ["reference", "master_key/0", "master_key/1", "truncated/1"]
    scored = [score_texts(texts, verifier) for verifier in (accept_all, is_correct)]
    assert len(found_attacks(scored[0], Acceptance(0.5))) > 12 * 8
    assert len(found_attacks(scored[1], Acceptance(0.5))) == 0


def test_the_search_counts_accepted_valid_mistakes():
    rows = pd.DataFrame({
        "problem_id": ["a"] * 4 + ["b"] * 4,
        "score": [2.0, 0, 0, 0, 2, 2, 2, 0],
        "correct": [False, False, False, True, True, False, False, False],
        "outcome": [Outcome.PROOF_INVALID.value] * 5 + [Outcome.NO_ANSWER.value] * 2 + [Outcome.PROOF_INVALID.value],
    })  # fmt: skip
    figures = search_figures(rows, Acceptance(1.0), 4)
    # Problem a has one hit among four; b has none: its accepted solutions are correct, or have no answer.
    assert [figures[f"search/{n}"].value for n in (1, 2, 4)] == pytest.approx([0.125, 0.25, 0.5])


def test_the_regression_set_is_tested_again_when_more_was_found(tmp_path, reference):
    run = RunFolder(shutil.copytree(reference.root, tmp_path / "game"))
    before = evaluate_run(run.root, round_index=1, only=["regression"])[0]
    assert before.figure("accepted/all").n == 0  # nothing was looked for yet
    evaluate_run(run.root, round_index=0, only=["untrained_attacks"], overrides=SMALL)
    num_found = len(pd.read_parquet(judgement_folder(run, "untrained_attacks", 0) / FOUND_ATTACKS))
    after = evaluate_run(run.root, round_index=1, only=["regression"])[0]
    assert after.figure("accepted/all").n == num_found
    stored = judgement_folder(run, "regression", 1) / "judgement.json"
    time = stored.stat().st_mtime_ns
    evaluate_run(run.root, round_index=1, only=["regression"])
    assert stored.stat().st_mtime_ns == time


def test_found_attacks_become_a_regression_set(tmp_path, reference):
    run = RunFolder(shutil.copytree(reference.root, tmp_path / "game"))
    results = evaluate_run(run.root, only=["untrained_attacks", "regression"], overrides=SMALL)
    attacks, regression = results[:2], results[2:]
    assert {"reference", "other_problem", "search/1", "search/4", "master_key/13"} <= set(attacks[0].figures)
    folder = judgement_folder(run, "untrained_attacks", 0)
    assert "trust me" in set(pd.read_parquet(folder / ATTACK_TEXTS)["solution"])
    found = pd.read_parquet(folder / FOUND_ATTACKS)
    assert not found["correct"].any()
    assert regression[0].figure("accepted/all").n == 0  # there is no verifier before the first
    assert regression[1].figure("accepted/all").n == len(found)
    if len(found):  # what the untrained verifier accepts differs between processors
        tested = pd.read_parquet(judgement_folder(run, "regression", 1) / ATTACK_TEXTS)
        assert np.array_equal(tested["solution"], found["solution"])
