import math
import shutil

import pytest

from pvg_hf.config.trust import write_origin
from pvg_hf.core.integrity import read_json
from pvg_hf.evaluation.selective import AnswerRules
from pvg_hf.experimental.answering.answerer import Answerer
from tests.support.recall_task import RecallTask


@pytest.fixture(scope="module")
def answerer(reference) -> Answerer:
    return Answerer.from_run(reference.root, device="cpu")


@pytest.fixture(scope="module")
def problem() -> str:
    return RecallTask(num_train=60, num_test=4).problems("test")["problem"][0]


def _answered(answerer, problem, **settings):
    """Return the first reply in which a solution has an answer."""
    replies = (answerer(problem, seed=seed, **settings) for seed in range(50))
    return next(reply for reply in replies if reply.best is not None)


def _stored(reference) -> AnswerRules:
    return read_json(reference.evaluation(1) / "answering.json", AnswerRules)


def test_the_runs_own_number_of_solutions_with_a_probability(answerer, reference, problem):
    rules, reply = _stored(reference), _answered(answerer, problem)
    assert rules.part == "verifier_heldout"
    assert len(reply.candidates) == rules.num_samples == answerer.rules.num_samples
    assert reply.rule == rules.default
    assert reply.answer == reply.best.answer
    assert (reply.votes, reply.why_unknown) == (sum(c.answer == reply.answer for c in reply.candidates), None)
    best = _answered(answerer, problem, rule="best")
    scores = [candidate.score for candidate in best.candidates if candidate.answer is not None]
    assert scores == sorted(scores, reverse=True)
    fit = rules.calibrations["best"]
    assert best.probability == pytest.approx(1 / (1 + math.exp(-fit.slope * scores[0] - fit.intercept)))
    again = [answerer(problem, num_samples=8, seed=seed).candidates for seed in (0, 0, 1)]
    assert again[0] == again[1] != again[2]


@pytest.mark.parametrize("rule", ["best", "vote", "weighted-vote"])
def test_another_number_has_another_probability_or_none(answerer, problem, rule):
    fewer = _answered(answerer, problem, num_samples=1, rule=rule)
    assert (len(fewer.candidates), fewer.votes) == (1, 1)
    assert 0 < fewer.probability < 1
    more = _answered(answerer, problem, num_samples=8, rule=rule)
    assert more.answer is not None
    assert more.probability is None
    assert f"{answerer.rules.num_samples} solutions, not 8" in more.why_unknown
    assert answerer(problem, num_samples=8, rule=rule, abstain_below=0.1).abstains


def test_a_text_outside_the_task_has_no_probability(answerer, problem, monkeypatch):
    monkeypatch.setattr(RecallTask, "problem_mistake", lambda self, text: "It is no story.")
    reply = _answered(answerer, problem)
    assert reply.answer is not None
    assert reply.probability is None
    assert "`recall`" in reply.why_unknown
    assert reply.why_unknown.endswith("It is no story.")


def test_a_doubtful_answer_is_withheld(answerer, problem):
    reply = _answered(answerer, problem, abstain_below=1.0)
    assert reply.abstains
    assert reply.answer is None
    assert reply.best is not None


@pytest.mark.parametrize(
    ("problem", "settings", "part"),
    [
        ("  ", {}, "1 to 20000 characters"),
        ("x" * 20_001, {}, "got 20001"),
        ("x", {"num_samples": 0}, "at least 1"),
        ("x", {"rule": "majority"}, "`majority`"),
        ("x", {"abstain_below": 1.5}, "in [0, 1]"),
    ],
)
def test_invalid_requests_are_refused(problem, settings, part, answerer):
    with pytest.raises(ValueError, match=part.replace("[", r"\[")):
        answerer(problem, **settings)


def test_a_folder_without_an_evaluated_round_is_refused(tmp_path, reference):
    with pytest.raises(ValueError, match=r"no recipe\.yaml"):
        Answerer.from_run(tmp_path)
    with pytest.raises(ValueError, match=f"nope does not exist.*{reference.root.name}"):
        Answerer.from_run(reference.root.parent / "nope")
    with pytest.raises(ValueError, match=r"round 7 .*calibration.* \[0, 1\]"):
        Answerer.from_run(reference.root, round_index=7)


def test_a_round_without_weights_is_refused(tmp_path, reference):
    """A published run that was fetched has no weights of the rounds before the last one."""
    shutil.copytree(reference.root, tmp_path / "game")
    for weights in (tmp_path / "game" / "verifier" / "round-000").glob("*.safetensors"):
        weights.unlink()
    write_origin(tmp_path / "game", "ana/game", 1)
    with pytest.raises(ValueError, match=r"weights .*round 0; .*\[1\].*pvg pull ana/game 0`"):
        Answerer.from_run(tmp_path / "game", round_index=0)
