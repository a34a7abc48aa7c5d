import numpy as np
import pandas as pd
import pytest

from pvg_hf.evaluation.answering import Calibration, answer_figures, choose, fit_calibration


def solutions(*problems: list[tuple]) -> pd.DataFrame:
    """Rows of (answer, correct, score) per problem; an answer of None has failed."""
    return pd.DataFrame([
        {"problem_id": f"p{number}", "sample_index": index, "answer": answer, "correct": correct, "score": score,
         "outcome": "NO_ANSWER" if answer is None else ("VERIFIED" if correct else "PROOF_INVALID")}
        for number, rows in enumerate(problems)
        for index, (answer, correct, score) in enumerate(rows)
    ])  # fmt: skip


def test_the_first_the_best_and_the_most_frequent():
    rows = solutions(
        [("4", False, 0.5), ("5", True, 2.0), ("4", False, 1.0)],
        [("7", True, 1.0), (None, False, 9.0), ("7", True, 0.0)],
        [(None, False, 3.0), (None, False, 1.0)],
    )
    table = choose(rows.sample(frac=1, random_state=0)).set_index("problem_id").sort_index()
    assert table["first"].tolist() == [False, True, False]
    assert table["best"].tolist() == [True, True, False]
    assert table["majority"].tolist() == [False, True, False]
    assert table["score"].tolist()[:2] == [2.0, 1.0]  # not the failed solution's 9
    assert np.isnan(table["score"]["p2"])


def test_ties_go_to_the_earlier_solution():
    table = choose(solutions([("1", False, 1.0), ("2", True, 1.0)], [("3", True, 0.0), ("4", False, 0.0)]))
    assert table["best"].tolist() == table["majority"].tolist() == [False, True]


def test_platts_scaling_by_hand():
    # Two scores, each with three choices: 2 of 3 correct at 1, 1 of 3 at -1. Targets are (3 + 1) / (3 + 2) = .8 and .2, so
    # the mean target is (2 * .8 + .2) / 3 = .6 at 1 and .4 at -1, which two parameters meet exactly: slope = log(.6 / .4).
    choices = pd.DataFrame({"score": [1.0] * 3 + [-1.0] * 3, "best": [True, True, False, True, False, False]})
    calibration = fit_calibration(choices, num_samples=8)
    assert calibration.slope == pytest.approx(np.log(1.5), abs=1e-3)
    assert calibration.intercept == pytest.approx(0.0, abs=1e-3)
    assert calibration.probability(1.0) == pytest.approx(0.6, abs=1e-3)
    assert (calibration.num_samples, calibration.num_problems) == (8, 6)


@pytest.mark.parametrize("is_right", [True, False])
def test_choices_that_are_all_alike_stay_short_of_certainty(is_right):
    choices = pd.DataFrame({"score": [0.0, 1.0, 2.0, 3.0], "best": [is_right] * 4})
    probability = fit_calibration(choices).probability(1.5)
    assert probability == pytest.approx(5 / 6 if is_right else 1 / 6, abs=1e-3)


def test_scores_that_mislead_are_not_believed():
    choices = pd.DataFrame({"score": [3.0, 2.0, 1.0, 0.0], "best": [False, False, True, True]})
    calibration = fit_calibration(choices)
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


def test_without_any_answer_nothing_is_answered():
    figures = answer_figures(solutions(*[[(None, False, 1.0)]] * 3), seed=0)
    assert figures["answers/best"].value == figures["answers/coverage_0.5"].value == 0.0
    assert figures["answers/accuracy_0.5"].value is None
    with pytest.raises(ValueError, match="no solution with an answer"):
        fit_calibration(choose(solutions([(None, False, 1.0)])))
