"""All figures of a round."""

import json
import math

import pandas as pd
import pytest

from pvg_hf.core.acceptance import Acceptance
from pvg_hf.core.figure import rate
from pvg_hf.evaluation.summary import evaluate_round, problem_table

SETTINGS = {"best_of_n": [2, 4], "seed": 0, "num_resamples": 100}


def solution(problem_id, role, round_index, correct, score, **changes):
    row = {
        "problem_id": problem_id,
        "role": role,
        "round_index": round_index,
        "sample_index": 0,
        "solution": f"{role} {correct}",
        "answer": "1",
        "correct": correct,
        "outcome": "VERIFIED" if correct else "PROOF_INVALID",
        "score": score,
        "num_tokens": 3,
        "is_truncated": False,
        "difficulty": 2,
    }
    return row | changes


@pytest.fixture
def minted_rows():
    return pd.DataFrame([
        solution("a", "helpful", 1, True, 2.0),
        solution("a", "helpful", 1, False, 0.0),
        solution("a", "sneaky", 1, False, 3.0),
        solution("b", "helpful", 1, True, 1.0),
        solution("b", "helpful", 1, True, 1.5),
        solution("b", "sneaky", 1, False, -1.0),
        solution("c", "helpful", 1, False, None, answer=None, outcome="NO_ANSWER"),
        solution("c", "sneaky", 1, True, 0.5),
        solution("a", "helpful", -1, True, 2.0),
        solution("b", "helpful", -1, False, 1.0),
        solution("a", "sneaky", -1, True, 2.0),
        solution("b", "sneaky", -1, False, -2.0),
    ])  # fmt: skip


@pytest.fixture
def heldout_rows():
    rows = [solution("h", "base", -1, True, 2.0), solution("h", "base", -1, False, 1.0)]
    rows += [solution("i", "sneaky", 0, False, 3.0), solution("i", "sneaky", 0, True, 1.0)]
    return pd.DataFrame(rows).assign(environment=["base", "base", "round-000-sneaky", "round-000-sneaky"])


def test_the_figures_of_a_round_by_hand(minted_rows, heldout_rows):
    figures = evaluate_round(minted_rows, heldout_rows, Acceptance(0.7), **SETTINGS)
    values = {name.removeprefix("round/"): figure.value for name, figure in figures.items()}
    assert values["accuracy/helpful"] == pytest.approx(3 / 5)
    assert values["accuracy/sneaky"] == pytest.approx(1 / 3)
    assert values["base_accuracy/helpful"] == values["base_accuracy/sneaky"] == 0.5
    assert values["accuracy_change/helpful"] == pytest.approx(3 / 5 - 1 / 2)
    assert values["accuracy_change/sneaky"] == pytest.approx(1 / 3 - 1 / 2)
    assert (values["valid_sneaky"], values["base_valid_sneaky"]) == (pytest.approx(2 / 3), 1 / 2)
    assert values["valid_sneaky_change"] == pytest.approx(2 / 3 - 1 / 2)
    assert values["failed/helpful"] == pytest.approx(1 / 5)
    assert values["score_change/sneaky_incorrect"] == pytest.approx(1.0 - -2.0)
    assert "accuracy_change/best_helpful" not in values
    assert values["answered/helpful"] == pytest.approx(4 / 5)
    assert values["score/helpful_correct"] == pytest.approx(1.5)
    assert values["score/sneaky_incorrect"] == pytest.approx(1.0)
    assert values["base_score/sneaky_incorrect"] == -2.0
    assert (values["completeness"], values["soundness"], values["exploit_rate"]) == (1.0, 0.5, 0.5)
    assert values["score_gap"] == pytest.approx(0.5)
    # The verifier chooses a correct solution to a and b; c has none with an answer.
    assert (values["answers/first"], values["answers/best"]) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    # Only problem a has a helpful solution of either kind, and none has two.
    assert (values["best_of_n/2"], figures["round/best_of_n/2"].n) == (1.0, 1)
    assert (values["best_of_n/4"], figures["round/best_of_n/4"].n) == (None, 0)
    assert (values["verifier_pair_accuracy"], figures["round/verifier_pair_accuracy"].n) == (0.5, 2)
    assert (values["verifier_pair_accuracy/base"], values["verifier_pair_accuracy/round-000-sneaky"]) == (1.0, 0.0)
    # h is judged at i's threshold, 2, and i at h's, 1.5: of the correct solutions neither is accepted, of the others
    # 3.0.
    assert (values["verifier_tpr"], values["verifier_fpr"], values["verifier_youden_j"]) == (0.0, 0.5, -0.5)
    # Test pairs of a: 2.0 against 0.0 and 3.0; of b: 1.0 and 1.5 against -1.0: three of four won.
    assert (values["test_pair_accuracy"], figures["round/test_pair_accuracy"].n) == (0.75, 4)
    assert values["threshold"] == 0.7


def test_gibberish_is_not_a_success_of_the_sneaky_role():
    """No sneaky solution has an answer; half of the base's are correct, like its helpful ones."""
    rows = [
        solution(f"p{k}", role, round_index, k % 2 == 0, 0.0)
        for k in range(40)
        for role, round_index in (("helpful", 1), ("helpful", -1), ("sneaky", -1))
    ]
    rows += [solution(f"p{k}", "sneaky", 1, False, 0.0, answer=None, outcome="NO_ANSWER") for k in range(40)]
    heldout = pd.DataFrame([solution("h", "base", -1, True, 2.0)]).assign(environment="base")
    figures = evaluate_round(pd.DataFrame(rows), heldout, Acceptance(0.7), **SETTINGS)
    assert figures["round/accuracy_change/sneaky"].value == -0.5
    assert (figures["round/valid_sneaky"].value, figures["round/failed/sneaky"].value) == (0.0, 1.0)
    assert figures["round/valid_sneaky_change"].value == -0.5
    assert figures["round/valid_sneaky_change"].high < 0


def test_a_prover_that_is_never_correct_can_still_be_judged():
    """Its solutions are compared with correct ones to the same problems by any prover."""
    rows = [solution("h", "base", -1, True, 2.0), solution("i", "base", -1, True, 1.0)]
    rows += [solution("j", "base", -1, True, 9.0)]  # of a problem without an incorrect solution
    rows += [solution("h", "sneaky", 0, False, 1.5), solution("i", "sneaky", 0, False, 3.0)]
    environments = ["reference", "base", "base", "round-000-sneaky", "round-000-sneaky"]
    figures = evaluate_round(
        pd.DataFrame([solution("a", "sneaky", 1, False, 0.0)]),
        pd.DataFrame(rows).assign(environment=environments),
        Acceptance(0.7),
        **SETTINGS,
    )
    pairs, auc = (
        figures["round/verifier_pair_accuracy/round-000-sneaky"],
        figures["round/verifier_auc/round-000-sneaky"],
    )
    assert (pairs.value, pairs.n) == (0.5, 2)
    assert (auc.value, auc.n) == (1 / 4, 4)
    assert figures["round/verifier_fpr/round-000-sneaky"].n == 2
    assert figures["round/verifier_tpr/round-000-sneaky"].n == 0
    assert figures["round/verifier_youden_j/round-000-sneaky"].value is not None


def test_every_figure_has_a_sound_interval_and_is_json(rounds_data):
    data = rounds_data[1]
    rows = pd.concat([data["test"], data["base"]], ignore_index=True)
    figures = evaluate_round(rows, data["heldout"], Acceptance(0.0), **SETTINGS)
    json.dumps([figure.to_dict() for figure in figures.values()], allow_nan=False)
    for name, figure in figures.items():
        assert figure.n > 0, name
        assert math.isfinite(figure.value), name
        if "threshold" not in name:
            assert figure.low <= figure.high, name
        if "calibration_error" not in name and "threshold" not in name:  # the bootstrap of an absolute error is biased
            assert figure.low <= figure.value <= figure.high, name
    assert {
        "round/verifier_auc/base",
        "round/verifier_auc/round-000-sneaky",
        "round/verifier_tpr/round-000-helpful",
        "round/distinct/helpful",
        "round/step_validity/sneaky",
        "round/implicit_share/helpful",
        "round/base_implicit_share/helpful",  # beside which a round's figure is read
        "round/accuracy_strict/helpful",
        "round/accuracy_lenient/helpful",
        "round/num_tokens/sneaky",
    } <= figures.keys()


def test_the_same_seed_gives_the_same_figures_whatever_the_index(minted_rows, heldout_rows):
    shifted = minted_rows.set_index(minted_rows.index + 100)
    first = evaluate_round(minted_rows, heldout_rows, Acceptance(0.7), **SETTINGS)
    assert evaluate_round(shifted, heldout_rows, Acceptance(0.7), **SETTINGS) == first
    assert evaluate_round(minted_rows, heldout_rows, Acceptance(0.7), **SETTINGS | {"seed": 1}) != first


def test_a_run_without_a_helpful_prover_can_be_judged(minted_rows, heldout_rows):
    figures = evaluate_round(minted_rows[minted_rows["role"] == "sneaky"], heldout_rows, Acceptance(0.7), **SETTINGS)
    assert figures["round/accuracy/helpful"].n == 0
    assert figures["round/accuracy_change/helpful"].value is None
    assert figures["round/soundness"] == rate(1, 2)


def test_missing_columns_and_mixed_rounds_are_refused(minted_rows, heldout_rows):
    with pytest.raises(ValueError, match=r"`test_rows` lacks .*\['score'\]"):
        evaluate_round(minted_rows.drop(columns="score"), heldout_rows, Acceptance(0.7), **SETTINGS)
    with pytest.raises(ValueError, match=r"`heldout_rows` lacks .*\['environment'\]"):
        evaluate_round(minted_rows, heldout_rows.drop(columns="environment"), Acceptance(0.7), **SETTINGS)
    mixed = pd.concat([minted_rows, minted_rows.assign(round_index=2)])
    with pytest.raises(ValueError, match=r"rounds \[1, 2\]"):
        evaluate_round(mixed, heldout_rows, Acceptance(0.7), **SETTINGS)


def test_problem_table_by_hand(minted_rows, tmp_path):
    table = problem_table(minted_rows).set_index("problem_id")
    assert table["difficulty"].tolist() == [2, 2, 2]
    assert table["accuracy_helpful"].tolist() == [0.5, 1.0, 0.0]
    assert table["accuracy_sneaky"].tolist() == [0.0, 0.0, 1.0]
    assert table["base_accuracy_helpful"].tolist()[:2] == [1.0, 0.0]
    assert table.loc["b", ["mean_score_helpful_correct", "best_score_helpful_correct"]].tolist() == [1.25, 1.5]
    # a: 3.0 outscores 2.0; b: -1.0 does not outscore 1.5; c has no sneaky mistake.
    assert table["fooled"].tolist()[:2] == [True, False]
    assert table["fooled"].isna().tolist() == [False, False, True]
    table.reset_index().to_parquet(tmp_path / "problems.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "problems.parquet"), problem_table(minted_rows))


def test_a_tie_fools_nobody():
    rows = pd.DataFrame([solution("a", "helpful", 1, True, 2.0), solution("a", "sneaky", 1, False, 2.0)])
    assert problem_table(rows)["fooled"].tolist() == [False]


def test_problem_table_without_difficulty(minted_rows):
    assert "difficulty" not in problem_table(minted_rows.drop(columns="difficulty"))


def test_the_kept_helpful_checkpoint_is_compared_with_the_base_in_that_role(minted_rows, heldout_rows):
    best = pd.DataFrame([solution("a", "helpful", 1, True, 2.0), solution("b", "helpful", 1, True, 0.0)])
    figures = evaluate_round(minted_rows, heldout_rows, Acceptance(0.7), best_helpful_rows=best, **SETTINGS)
    assert figures["round/accuracy/best_helpful"].value == 1.0
    assert figures["round/accuracy_change/best_helpful"].value == pytest.approx(1 - 1 / 2)
