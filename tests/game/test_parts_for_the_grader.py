"""A game of a task whose solutions are parts of the written texts: only the grader gets the rest."""

import pytest

from pvg_hf import VerifierScorer, load_recipe, play
from pvg_hf.data.pool import load_pool
from pvg_hf.experimental.answering.answerer import Answerer
from pvg_hf.game.phases import prover
from tests.support.recall_task import HidingRecallTask, RecallTask

pytestmark = pytest.mark.game

TASK = "tests.support.recall_task:HidingRecallTask"


@pytest.fixture
def seen(monkeypatch) -> dict[str, list[str]]:
    """Records the texts that verifiers score, that are graded, and that prover phases ask labels for."""
    texts = {"scored": [], "graded": [], "shown": []}

    def score(scorer, problems, solutions, call=VerifierScorer.__call__):
        texts["scored"] += solutions
        return call(scorer, problems, solutions)

    def grade(task, problem, solution, call=RecallTask.grade):
        texts["graded"].append(solution)
        return call(task, problem, solution)

    def observe(labels, rows, step, call=prover.LabelSource.observed):
        texts["shown"] += [row["solution"] for row in rows]
        return call(labels, rows, step)

    monkeypatch.setattr(VerifierScorer, "__call__", score)
    monkeypatch.setattr(HidingRecallTask, "grade", grade)
    monkeypatch.setattr(prover.LabelSource, "observed", observe)
    return texts


def hidden_in(texts) -> list[str]:
    return [text for text in texts if "#" in text and not text.startswith("#")]


def test_verifiers_never_see_what_is_for_the_grader_alone(game, seen):
    folder = play(load_recipe(game(num_rounds=1, task__name=TASK, noise={"epsilon": 0.1, "applies_to": "both"})))
    assert len(seen["shown"]) >= 6 * 4 * 4  # of the prover phase: steps, prompts, generations
    assert hidden_in(seen["graded"])
    pool = load_pool(sorted(folder.root.glob("pool/*/*.parquet"))).to_pandas()
    assert {"helpful", "sneaky", "base"} <= set(pool["role"])
    assert pool["correct"].any()
    reply = Answerer.from_run(folder.root, device="cpu")(pool["problem"][0])
    assert [candidate.solution for candidate in reply.candidates if "#" in candidate.solution]
    for texts in (seen["scored"], seen["shown"], pool["solution"], [one.solution for one in reply.candidates]):
        assert len(texts) > 0
        assert hidden_in(texts) == []
