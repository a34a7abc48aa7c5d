import json
import math
import shutil

import pytest
from recall_task import RecallTask

from pvg_hf.game.answering import Answerer


@pytest.fixture(scope="module")
def answerer(reference) -> Answerer:
    return Answerer.from_run(reference.root, device="cpu")


@pytest.fixture(scope="module")
def problem() -> str:
    return RecallTask(num_train=60, num_test=4).problems("test")["problem"][0]


def test_the_best_of_several_with_its_probability(answerer, reference, problem):
    reply = answerer(problem, num_samples=8)
    scores = [candidate.score for candidate in reply.candidates if candidate.answer is not None]
    assert len(reply.candidates) == 8
    assert scores == sorted(scores, reverse=True)
    fit = json.loads((reference.evaluation(1) / "answering.json").read_text())
    assert reply.probability == pytest.approx(1 / (1 + math.exp(-fit["slope"] * scores[0] - fit["intercept"])))
    assert reply.answer == reply.best.answer
    assert reply == answerer(problem, num_samples=8)
    assert reply.candidates != answerer(problem, num_samples=8, seed=1).candidates


def test_a_doubtful_answer_is_withheld(answerer, problem):
    reply = answerer(problem, num_samples=4, abstain_below=1.0)
    assert reply.abstains
    assert reply.answer is None
    assert reply.best is not None


@pytest.mark.parametrize(
    ("problem", "settings", "part"),
    [
        ("  ", {}, "1 to 20000 characters"),
        ("x" * 20_001, {}, "got 20001"),
        ("x", {"num_samples": 0}, "at least 1"),
        ("x", {"abstain_below": 1.5}, "in [0, 1]"),
    ],
)
def test_what_cannot_be_answered(problem, settings, part, answerer):
    with pytest.raises(ValueError, match=part.replace("[", r"\[")):
        answerer(problem, **settings)


def test_a_folder_without_an_evaluated_round(tmp_path, reference):
    with pytest.raises(ValueError, match="holds no round that was evaluated"):
        Answerer.from_run(tmp_path)
    with pytest.raises(
        ValueError, match=r"holds no round 7 that was evaluated with a calibration; it has those of \[0, 1\]"
    ):
        Answerer.from_run(reference.root, round_index=7)


def test_a_round_whose_weights_are_gone(tmp_path, reference):
    """As those before the last one are in a published run that was fetched."""
    shutil.copytree(reference.root, tmp_path / "game")
    for weights in (tmp_path / "game" / "verifier" / "round-000").glob("*.safetensors"):
        weights.unlink()
    with pytest.raises(
        ValueError, match=r"no weights of the players of round 0; it has those of \[1\].*RUN 0` and name"
    ):
        Answerer.from_run(tmp_path / "game", round_index=0)
