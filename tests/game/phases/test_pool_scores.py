"""Scores of every round's solutions by every round's verifier, in a game that was played."""

import pandas as pd
import pytest

from pvg_hf import load_recipe, play
from pvg_hf.core.integrity import read_json
from pvg_hf.evaluation.role_figures import scored_rows
from pvg_hf.game.interrupt import GameInterrupted
from pvg_hf.game.phases import evaluate
from pvg_hf.game.phases.evaluate import SOLUTION_KEYS, read_test_rows
from pvg_hf.run.layout import POOL_SCORES
from pvg_hf.scoring import VerifierScorer
from tests.support.game_runs import bytes_of, copy_until

pytestmark = pytest.mark.game


def scores_of(folder, round_index) -> pd.DataFrame:
    return pd.read_parquet(folder.evaluation(round_index) / POOL_SCORES)


def pairs(table) -> set[tuple[int, int]]:
    return set(zip(table["verifier"], table["round_index"]))


def test_every_verifier_scores_every_pool(reference):
    assert pairs(scores_of(reference, 0)) == {(0, -1), (0, 0)}
    assert pairs(scores_of(reference, 1)) == {(1, -1), (1, 0), (0, 1), (1, 1)}


@pytest.mark.parametrize(("verifier", "pool"), [(1, -1), (1, 0), (0, 1), (1, 1)])
def test_scores_are_those_of_the_verifier(reference, verifier, pool):
    table = scores_of(reference, 1)
    table = table[(table["verifier"] == verifier) & (table["round_index"] == pool)]
    rows = read_test_rows(reference, pool)
    scorer = VerifierScorer.from_pretrained(reference.verifier(verifier), device="cpu")
    expected = scorer(rows["problem"].tolist(), rows["solution"].tolist())
    pd.testing.assert_frame_equal(table[SOLUTION_KEYS].reset_index(drop=True), rows[SOLUTION_KEYS])
    assert table["score"].tolist() == pytest.approx(expected, abs=1e-5)
    own = scores_of(reference, 0).query("verifier == 0 and round_index == -1") if pool == -1 else rows
    assert table["own_score"].tolist() == pytest.approx(own["score"].tolist(), abs=1e-5)


def test_the_evaluation_holds_the_figures(reference):
    figures = read_json(reference.evaluation(1) / "metrics.json")
    assert {name for name in figures if name.startswith("round/pools/accepted/")} == {
        f"round/pools/accepted/{place}"
        for place in ("round-001/base", "round-001/round-000", "round-000/round-001", "round-001/round-001")
    }
    assert figures["round/parity_gap"]["n"] == 6  # steps
    assert figures["round/new_texts/sneaky_incorrect"]["n"] > 0


def test_the_last_verifiers_acceptance_by_role_is_that_of_earlier_provers(reference):
    figures = {
        index: {name: value for name, value in found.items() if name.startswith("round/accepted_role/")}
        for index in (0, 1)
        for found in [read_json(reference.evaluation(index) / "metrics.json")]
    }
    assert figures[0] == {}  # no prover was trained before
    earlier = scored_rows(read_test_rows(reference, 0))
    for role in ("helpful", "sneaky"):
        of_role = earlier[earlier["role"] == role]
        counts = {kind: figures[1][f"round/accepted_role/{role}/{kind}"]["n"] for kind in ("correct", "incorrect")}
        assert counts == {"correct": of_role["correct"].sum(), "incorrect": (~of_role["correct"].astype(bool)).sum()}


def test_an_interrupted_evaluation_continues_after_the_last_pool(tmp_path, game, reference, monkeypatch):
    folder = copy_until(reference, tmp_path, "round-001/mint")
    scored = []

    def fail_in_the_third(processes, stop, scorer, rows, score=evaluate._score_shared):
        scored.append(rows["round_index"].iloc[0])
        if len(scored) == 3:
            raise KeyboardInterrupt
        return score(processes, stop, scorer, rows)

    monkeypatch.setattr(evaluate, "_score_shared", fail_in_the_third)
    with pytest.raises(GameInterrupted):
        play(load_recipe(game()))
    play(load_recipe(game()))
    assert scored == [-1, 0, 1, 1]  # the third again, and none of the first two
    assert bytes_of(folder) == bytes_of(reference)


def test_a_verifier_that_was_deleted_scores_nothing_more(tmp_path, game, reference):
    folder = copy_until(reference, tmp_path, "round-001/mint")
    (folder.verifier(0) / "model.safetensors").unlink()
    play(load_recipe(game()))
    assert pairs(scores_of(folder, 1)) == {(1, -1), (1, 0), (1, 1)}


def test_rounds_need_not_be_crossed(tmp_path, play_phase):
    play_phase("evaluate", 1, evaluation__crossed_rounds=0)
    table = pd.read_parquet(tmp_path / "game" / "evaluation" / "round-001" / POOL_SCORES)
    assert pairs(table) == {(1, -1), (1, 1)}
