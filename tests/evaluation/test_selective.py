import numpy as np
import pandas as pd
import pytest

from pvg_hf.core.integrity import convert
from pvg_hf.evaluation.selective import (
    ANSWER_RULES,
    AnswerRules,
    Calibration,
    answer_figures,
    choose,
    choose_answer,
    fit_calibration,
    fit_rules,
)

WEIGH = Calibration(
    slope=1.0, intercept=0.0, num_problems=1
)  # weights are sigmoid(score): .73 at 1, .88 at 2, .5 at 0


def solutions(*problems: list[tuple]) -> pd.DataFrame:
    """Rows of (answer, correct, score) for each problem; a solution whose answer is None has failed."""
    return pd.DataFrame([
        {"problem_id": f"p{number}", "sample_index": index, "answer": answer, "correct": correct, "score": score,
         "outcome": "NO_ANSWER" if answer is None else ("VERIFIED" if correct else "PROOF_INVALID")}
        for number, rows in enumerate(problems)
        for index, (answer, correct, score) in enumerate(rows)
    ])  # fmt: skip


def test_first_best_and_votes_by_hand():
    rows = solutions(
        [("4", False, 0.5), ("5", True, 2.0), ("4", False, 1.0)],
        [("7", True, 1.0), (None, False, 9.0), ("7", True, 0.0)],
        [(None, False, 3.0), (None, False, 1.0)],
    )
    table = choose(rows.sample(frac=1, random_state=0), weigh=WEIGH).set_index("problem_id").sort_index()
    assert table["first"].tolist() == [False, True, False]
    assert table["best"].tolist() == [True, True, False]
    assert table["vote"].tolist() == [False, True, False]
    assert table["weighted-vote"].tolist() == [False, True, False]  # .62 + .73 against .88
    assert table["confidence/best"].tolist()[:2] == [2.0, 1.0]  # not the failed solution's 9
    assert table["confidence/vote"].tolist()[:2] == pytest.approx([2 / 3, 2 / 3])
    assert table["confidence/weighted-vote"].tolist()[:2] == pytest.approx(
        [(0.6225 + 0.7311) / 3, 1.2311 / 3], abs=1e-3
    )
    assert table.loc["p2", [f"confidence/{rule}" for rule in ANSWER_RULES]].isna().all()


@pytest.mark.parametrize(
    ("answers", "correct", "share"),
    [
        (["1", "2", "2.0", "1"], [False, True, True, False], 0.5),  # a tie of 1 and 2, whose notations are equal
        (["1", "2", "3"], [False, False, True], 1 / 3),
        (["1", "2", "2"], [True, False, False], 0.0),
        (["1", None, None], [True, False, False], 1.0),
        ([None, None], [False, False], 0.0),
    ],
    ids=["two", "three", "no tie", "one answer", "no answer"],
)
def test_a_tied_vote_is_shared(answers, correct, share):
    rows = solutions([(answer, is_right, 0.0) for answer, is_right in zip(answers, correct, strict=True)])
    assert choose(rows)["vote"].tolist() == pytest.approx([share])


def test_the_majority_figure_shares_ties():
    """
    The first problem has a tie of 1 and 2, of which 2 is right; the second has 5 alone, which is right: (.5 + 1) / 2.
    """
    rows = solutions(
        [("1", False, 0.0), ("2", True, 0.0)],
        [("5", True, 0.0), ("5", True, 0.0)],
    )
    assert answer_figures(rows, seed=0)["answers/majority"].value == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("rule", "answers", "scores", "index", "votes"),
    [
        ("best", ["1", "2", "2"], [1.0, 1.0, 0.0], 0, 1),  # of equal scores the earlier
        ("best", ["1", None, "2"], [1.0, 9.0, 2.0], 2, 1),
        ("vote", ["1", "2", "2", "1"], [0.0, 1.0, 3.0, 2.0], 3, 2),  # of equal votes the answer that came first
        ("vote", [None, "2", "1"], [9.0, 0.0, 1.0], 1, 1),
        ("weighted-vote", ["1", "2", "2"], [2.0, 0.0, 0.0], 1, 2),  # .88 against .5 + .5; of these the earlier
        ("weighted-vote", ["1", "2", "2"], [2.0, -2.0, -2.0], 0, 1),  # .88 against .12 + .12
        ("weighted-vote", ["1", "2"], [1.0, 1.0], 0, 1),
        ("vote", ["0.5", "2", "1/2"], [0.0, 5.0, 1.0], 2, 2),  # equal numbers, however written
    ],
)
def test_ties_under_each_rule_by_hand(rule, answers, scores, index, votes):
    choice = choose_answer(answers, scores, rule, weigh=WEIGH)
    assert (choice.index, choice.votes) == (index, votes)


def test_the_task_decides_which_answers_are_equal():
    def same(first, second):
        return first.lower() == second.lower()

    assert choose_answer(["a", "B", "b"], [1.0, 0.0, 0.0], "vote", same=same).index == 1
    assert choose_answer([None, None], [1.0, 0.0], "vote", same=same) is None


def test_an_unknown_rule_is_refused():
    with pytest.raises(ValueError, match="`majority`"):
        choose_answer(["1"], [0.0], "majority")


def test_a_problem_with_more_solutions_counts_several_times():
    # Of single solutions, 3 of 4 are correct; of pairs, the best of (1, 2) is wrong and that of (3, 4) right.
    rows = solutions([("5", True, 0.0), ("6", False, 1.0), ("5", True, 3.0), ("5", True, 2.0)]).assign(part="test")
    assert fit_rules(rows, 1).accuracies == dict.fromkeys(ANSWER_RULES, 0.75)
    pairs = fit_rules(rows, 2)
    assert (pairs.num_samples, pairs.num_problems, pairs.part) == (2, 1, "test")
    assert pairs.accuracies["best"] == 0.5
    assert pairs.calibrations["best"].num_problems == 2
    assert convert(pairs.to_dict(), AnswerRules) == pairs
    with pytest.raises(ValueError, match=r"No .* 5 solutions"):
        fit_rules(rows, 5)


def test_the_rule_that_was_right_most_often_is_the_default():
    fit = Calibration(1.0, 0.0, 1)

    def rules(**accuracies):
        named = {name.replace("_", "-"): value for name, value in accuracies.items()}
        return AnswerRules(4, 10, "test", fit, dict.fromkeys(named, fit), named)

    assert rules(vote=0.8, best=0.7, weighted_vote=0.7).default == "vote"
    assert rules(vote=0.8, best=0.8, weighted_vote=0.8).default == "weighted-vote"
    assert rules(vote=0.8, best=0.8, weighted_vote=0.7).default == "best"


def test_platts_scaling_by_hand():
    # Two scores, each with three choices: 2 of 3 correct at 1, 1 of 3 at -1. Targets are (3 + 1) / (3 + 2) = .8 and
    # .2, so the mean target is (2 * .8 + .2) / 3 = .6 at 1 and .4 at -1, which two parameters meet exactly: slope =
    # log(.6 / .4).
    calibration = fit_calibration([1.0] * 3 + [-1.0] * 3, [True, True, False, True, False, False], num_samples=8)
    assert calibration.slope == pytest.approx(np.log(1.5), abs=1e-3)
    assert calibration.intercept == pytest.approx(0.0, abs=1e-3)
    assert calibration.probability(1.0) == pytest.approx(0.6, abs=1e-3)
    assert (calibration.num_samples, calibration.num_problems) == (8, 6)


@pytest.mark.parametrize("is_right", [True, False])
def test_identical_outcomes_do_not_give_certainty(is_right):
    probability = fit_calibration([0.0, 1.0, np.nan, 2.0, 3.0], [is_right] * 5).probability(1.5)
    assert probability == pytest.approx(5 / 6 if is_right else 1 / 6, abs=1e-3)


def test_misleading_scores_are_not_used():
    calibration = fit_calibration([3.0, 2.0, 1.0, 0.0], [False, False, True, True])
    assert calibration.slope == 0.0
    assert calibration.probability(-5.0) == calibration.probability(5.0) == pytest.approx(0.5)


def test_extreme_scores_have_a_probability():
    calibration = Calibration(slope=1e6, intercept=0.0, num_problems=1)
    assert calibration.probability(1.0) == pytest.approx(1.0)
    assert 0 <= calibration.probability(-1.0) < 1e-300


def test_a_threshold_buys_accuracy_with_coverage():
    rng = np.random.default_rng(0)
    problems = []
    for _ in range(400):
        correct = rng.random(4) < 0.5
        scores = rng.normal(np.where(correct, 1.0, -1.0))
        problems.append(
            [("1" if good else str(rng.integers(2, 9)), bool(good), score) for good, score in zip(correct, scores)]
        )
    figures = answer_figures(solutions(*problems), seed=0)
    assert figures["answers/gain"].low > 0.2
    coverages = [figures[f"answers/coverage_{threshold}"].value for threshold in (0.5, 0.8, 0.9)]
    accuracies = [figures[f"answers/accuracy_{threshold}"].value for threshold in (0.5, 0.8, 0.9)]
    assert coverages == sorted(coverages, reverse=True)
    assert coverages[-1] < coverages[0]
    assert accuracies[-1] > figures["answers/best"].value
    assert figures["answers/weighted"].value > figures["answers/majority"].value


def test_without_any_answer_nothing_is_answered():
    figures = answer_figures(solutions(*[[(None, False, 1.0)]] * 3), seed=0)
    assert figures["answers/best"].value == figures["answers/coverage_0.5"].value == 0.0
    assert figures["answers/accuracy_0.5"].value is None
    assert figures["answers/weighted"].value == 0.0
    with pytest.raises(ValueError, match="no solution"):
        fit_calibration([np.nan], [False])
