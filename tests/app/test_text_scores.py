"""Scores of texts that a visitor enters."""

from contextlib import ExitStack

import pytest

from pvg_hf.app import text_scores
from pvg_hf.app.runs import OpenRun
from pvg_hf.app.text_scores import ScoreDesk
from tests.support.index_rows import problem_ids, solution_rows


@pytest.fixture(scope="module")
def run(arithmetic_run) -> OpenRun:
    return OpenRun(arithmetic_run)


@pytest.fixture(scope="module")
def open_desk():
    """Opens desks that end with the file: a verifier that is being loaded would meet the loads of other tests."""
    with ExitStack() as desks:

        def start(run: OpenRun) -> ScoreDesk:
            desk = ScoreDesk(run)
            desks.callback(desk.close)
            return desk

        yield start


@pytest.fixture(scope="module")
def desk(run, open_desk) -> ScoreDesk:
    return open_desk(run)


@pytest.mark.parametrize("round_index", [0, 1])
def test_a_solution_of_the_run_gets_its_own_score_again(run, desk, round_index):
    index = run.index()
    rows = [
        row
        for problem_id in problem_ids(index, round_index)
        for row in solution_rows(index, round_index, problem_id)
        if row["solution"] == row["solution"].strip()
    ]
    row = rows[0]
    scored = desk.score(round_index, row["problem"], row["solution"])
    assert scored.score == pytest.approx(row["score"], abs=1e-4)
    lines = row["solution"].split("\n")
    assert [text for text, _ in scored.steps] == lines
    assert scored.steps[-1][1] == scored.score
    begun = desk.score(round_index, row["problem"], "\n".join(lines[:2]))
    assert begun.score == pytest.approx(scored.steps[1][1], abs=1e-4)
    for kind, others in index.scores(round_index).items():
        assert scored.num_compared[kind] == len(others)
        assert scored.percentiles[kind] == pytest.approx(100 * (others < scored.score).mean())
    assert scored.is_accepted == (scored.score >= index.threshold(round_index))


def test_a_generative_verifier_scores_as_it_did_in_the_game(score_run, open_desk):
    run = OpenRun(score_run.root)
    desk, index = open_desk(run), run.index()
    assert desk.rounds() == [0, 1]
    rows = [row for problem_id in problem_ids(index, 1) for row in solution_rows(index, 1, problem_id)][:8]
    assert len({row["score"] for row in rows}) > 1
    for row in rows:
        assert desk.score(1, row["problem"], row["solution"]).score == pytest.approx(row["score"], abs=1e-4)


def test_blank_lines_are_not_steps(desk):
    scored = desk.score(0, "How many?", "\nhas 3\n\n  \n#### 3\n")
    assert [text for text, _ in scored.steps] == ["has 3", "#### 3"]


def test_a_text_longer_than_the_input_is_reported_as_cut(desk):
    scored = desk.score(0, "How many?", " ".join(["3 + 4 = 7"] * 400))
    assert scored.is_cut
    assert not desk.score(0, "How many?", "has 3").is_cut


@pytest.mark.parametrize(
    ("problem", "solution", "message"),
    [
        (" ", "has 3", "The problem is empty"),
        ("How many?", "", "The solution is empty"),
        ("x" * 4001, "has 3", "The problem has 4,001 characters; at most 4,000"),
        ("How many?", "x" * 8001, "The solution has 8,001 characters; at most 8,000"),
        ("How many?", "x\n" * 61, "The solution has 61 lines; at most 60"),
    ],
)
def test_texts_that_are_not_scored(desk, problem, solution, message):
    with pytest.raises(ValueError, match=message):
        desk.score(0, problem, solution)


def test_a_round_without_a_verifier(desk):
    assert desk.rounds() == [0, 1]
    with pytest.raises(ValueError, match=r"round 7.*\[0, 1\]"):
        desk.score(7, "How many?", "has 3")


def test_damaged_weights_are_named(run_copy, open_desk):
    weights = run_copy / "verifier" / "round-000" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"model\.safetensors is damaged"):
        open_desk(OpenRun(run_copy)).score(0, "How many?", "has 3")


def test_waiting_for_the_verifier_times_out(run, open_desk, monkeypatch):
    monkeypatch.setattr(text_scores, "TIMEOUT_SECONDS", 0.0)
    with pytest.raises(ValueError, match="not ready after 0 s"):
        open_desk(run).score(0, "How many?", "has 3")
