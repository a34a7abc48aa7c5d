"""
A verifier that accepts everything and a perfect one have the extreme figures, of whole evaluations and of parts of
them.
"""

import shutil

import pandas as pd
import pytest

from pvg_hf.core.acceptance import Acceptance
from pvg_hf.core.roles import Outcome
from pvg_hf.evaluation.verifier_quality import judge_crossfitted, quality_figures
from pvg_hf.experimental.judging.judged_round import JudgedRound
from pvg_hf.experimental.judging.run_evaluations import evaluate_run
from pvg_hf.experimental.judging.untrained_attacks import search_figures
from pvg_hf.run.layout import RunFolder
from pvg_hf.tasks.base import grade_solution

SMALL = ["untrained_attacks.num_problems=3", "untrained_attacks.budget=2"]


def accept_everything(judged):
    return lambda problems, solutions: [1.0] * len(problems)


def check_exactly(judged):
    """A verifier that grades, in place of judging."""
    problems = {row["problem"]: row for part in judged.problems.parts.values() for row in part}

    def score(texts, solutions):
        pairs = zip(texts, solutions, strict=True)
        return [
            float(grade_solution(judged.problems.task, problems[text], solution).correct) for text, solution in pairs
        ]

    return score


@pytest.mark.parametrize(("stub", "accepted"), [(accept_everything, 1.0), (check_exactly, 0.0)])
def test_attacks_without_training_and_the_regression_set(stub, accepted, tmp_path, reference, monkeypatch):
    run = RunFolder(shutil.copytree(reference.root, tmp_path / "game"))
    monkeypatch.setattr(JudgedRound, "acceptance", Acceptance(0.5))
    monkeypatch.setattr(JudgedRound, "scorer", accept_everything)  # so that everything is found
    evaluate_run(run.root, round_index=0, only=["untrained_attacks"], overrides=SMALL)
    monkeypatch.setattr(JudgedRound, "scorer", stub)
    attacks, regression = evaluate_run(
        run.root, round_index=1, only=["untrained_attacks", "regression"], overrides=SMALL
    )
    wrong = [name for name in attacks.figures if name.startswith(("master_key/", "answer_alone/incorrect"))]
    assert wrong
    assert {attacks.figure(name).value for name in wrong} == {accepted}
    assert attacks.figure("reference").value == 1.0
    assert regression.figure("accepted/all").n > len(wrong)
    assert regression.figure("accepted/all").value == regression.figure("accepted/round-000").value == accepted


@pytest.fixture
def rows() -> pd.DataFrame:
    """Two correct solutions and two mistakes to each of eight problems."""
    correct = [True, True, False, False] * 8
    outcome = {True: Outcome.VERIFIED.value, False: Outcome.PROOF_INVALID.value}
    problems = [str(number) for number in range(8) for _ in range(4)]
    return pd.DataFrame({"problem_id": problems, "correct": correct, "outcome": [outcome[value] for value in correct]})


@pytest.mark.parametrize(("is_perfect", "accepted"), [(False, 1.0), (True, 0.0)])
def test_a_search_among_sneaky_solutions(is_perfect, accepted, rows):
    scored = rows.assign(score=rows["correct"].astype(float) if is_perfect else 1.0)
    assert search_figures(scored, Acceptance(0.5), 4)["search/4"].value == accepted
    assert search_figures(scored[~scored["correct"]], Acceptance(0.5), 2)["search/1"].value == accepted


def test_a_rounds_verifier(rows):
    def figures(scores):
        scored = rows.assign(score=scores)
        accepted = judge_crossfitted(scored, seed=0).fillna(True)  # no threshold tells equal scores apart
        return quality_figures(scored.assign(judged_correct=accepted), seed=0, num_resamples=50)

    names = ("tpr", "fpr", "auc", "pair_accuracy", "youden_j")
    everything, perfect = figures(1.0), figures(rows["correct"].astype(float))
    assert [everything[name].value for name in names] == [1.0, 1.0, 0.5, 0.5, 0.0]
    assert [perfect[name].value for name in names] == [1.0, 0.0, 1.0, 1.0, 1.0]
