"""A user's solutions: the choices of a verifier, of a vote, and of both."""

from itertools import islice, permutations

import pandas as pd
import pytest

from pvg_hf.core.score_calibration import GRID, ScoreCalibration
from pvg_hf.evaluation.chosen_answers import choose_answers, compare_rules, describe_rules

CALIBRATION = ScoreCalibration({"slope": 1.0, "intercept": 0.0}, [*GRID], [*GRID], 10, 5)


def rows_of(*solutions: tuple[str, float, bool]) -> pd.DataFrame:
    rows = pd.DataFrame(solutions, columns=["solution", "score", "correct"])
    return rows.assign(problem_id="p", problem="How many?")


@pytest.fixture
def rows():
    # The verifier likes the 7; three of four say 5.
    return rows_of(
        ("a\n#### 7", 2.0, False), ("b\n#### 5", 1.0, True), ("c\n#### 5.0", 0.5, True), ("d\n#### 5", 0.0, True)
    )


def test_each_rule_has_its_choice(rows):
    (found,) = choose_answers(rows, CALIBRATION)
    assert (found["verifier"]["index"], found["verifier"]["answer"]) == (0, "7")
    assert (found["vote"]["index"], found["vote"]["votes"]) == (1, 3)  # 5.0 is the same number
    # Weights: sigmoid(2) = .88 for 7; sigmoid(1) + sigmoid(.5) + sigmoid(0) = .73 + .62 + .5 for 5.
    assert found["both"]["index"] == 1
    assert found["probability"] == pytest.approx(0.8808, abs=1e-4)
    text = describe_rules(compare_rules(rows, [found]))
    assert "verifier and vote differ in 1 of 1 problems" in text
    assert "vote and both differ in 0 of 1 problems" in text


def test_without_a_calibration_there_is_no_weighted_vote_and_no_probability(rows):
    (found,) = choose_answers(rows, None)
    assert {"both", "probability"}.isdisjoint(found)


def test_without_answers_only_the_verifier_chooses(rows):
    (found,) = choose_answers(rows, CALIBRATION, with_votes=False)
    assert found.keys() & {"verifier", "vote", "both"} == {"verifier"}
    assert "answer" not in found["verifier"]


def test_a_problem_without_an_answer_has_no_vote():
    rows = rows_of(("I do not know", 1.0, False), ("nor do I", 0.0, False))
    (found,) = choose_answers(rows, None)
    assert found["vote"] is None
    assert found["verifier"]["index"] == 0
    assert "right: vote" in describe_rules(compare_rules(rows, [found]))


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
@pytest.mark.parametrize("place", [0, 1])
def test_a_score_that_is_not_finite_is_refused(score, place):
    rows = rows_of(("#### 1", 0.5, True), ("#### 2", 0.5, False))
    rows.loc[place, "score"] = score
    with pytest.raises(ValueError, match=rf"solution {place} \('#### {place + 1}'\) is {score}"):
        choose_answers(rows, None)


def test_ties_do_not_depend_on_the_order_of_the_rows():
    # 5 and 6 have two votes each, and all scores are equal: three of the five are right, and one of the tied answers.
    solutions = [("a #### 5", 1.0, True), ("b #### 5", 1.0, True), ("#### 6", 1.0, False), ("c #### 6", 1.0, False)]
    solutions.append(("#### 9", 1.0, True))
    found = []
    for order in islice(permutations(solutions), 0, None, 17):
        rows = rows_of(*order)
        (chosen,) = choose_answers(rows, CALIBRATION)
        assert [order[chosen[rule]["index"]][0] for rule in ("verifier", "vote", "both")] == [
            chosen[rule]["solution"] for rule in ("verifier", "vote", "both")
        ]
        right = compare_rules(rows, [chosen])["right"]
        texts = [chosen[rule]["solution"] for rule in ("verifier", "vote", "both")]
        found.append((texts, {name: figure.value for name, figure in right.items()}))
    assert all(one == found[0] for one in found)
    right = found[0][1]
    assert (right["verifier"], right["vote"], right["both"]) == (pytest.approx(3 / 5), 0.5, 0.5)


def test_rules_are_compared_with_a_random_solution():
    first = rows_of(("#### 5", 1.0, True), ("#### 4", 0.0, False), ("#### 3", 0.5, False))
    second = rows_of(("#### 7", 0.0, True), ("#### 6", 1.0, True)).assign(problem_id="q")
    rows = pd.concat([first, second], ignore_index=True)
    figures = compare_rules(rows, choose_answers(rows, None))
    assert figures["right"]["random solution"].value == pytest.approx((1 / 3 + 1) / 2)
    assert figures["right"]["verifier"].value == figures["right"]["any solution"].value == 1
    assert figures["gain"]["verifier"].value == pytest.approx(1 / 3)
