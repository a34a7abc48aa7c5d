"""The rule by which a verifier accepts solutions."""

import numpy as np
import pytest

from pvg_hf.core.acceptance import COMPLETENESS, Acceptance


@pytest.mark.parametrize(
    ("correct_scores", "completeness", "expected"),
    [
        # .95 of 20 is 19: the lowest of 20 scores is left out.
        pytest.param(range(20), 0.95, (1.0, 1.0), id="whole number, no ties"),
        # .95 of 10 is 9.5: nine above the lowest, and half of that.
        pytest.param(range(10), 0.95, (0.0, 0.5), id="a part of a solution"),
        pytest.param([7.0] * 40, 0.95, (7.0, 0.95), id="all scores equal"),
        # .95 of 10 is 9.5: three 1s and four .5s are above, and 2.5 of the three 0s make up the rest.
        pytest.param([1.0] * 3 + [0.5] * 4 + [0.0] * 3, 0.95, (0.0, 2.5 / 3), id="few levels"),
        # .6 of 10 is 6: the three 1s, and three of the four .5s.
        pytest.param([1.0] * 3 + [0.5] * 4 + [0.0] * 3, 0.6, (0.5, 3 / 4), id="few levels, half"),
        pytest.param([2.0], 0.5, (2.0, 0.5), id="one solution"),
    ],
)
def test_threshold_and_share_of_ties_by_hand(correct_scores, completeness, expected):
    rule = Acceptance.at(list(correct_scores), completeness)
    assert (rule.threshold, rule.share_of_ties) == pytest.approx(expected)


@pytest.mark.parametrize("num_levels", [1, 2, 3, 10, 10**6])
@pytest.mark.parametrize("num_solutions", [1, 7, 20, 33, 200])
@pytest.mark.parametrize("completeness", [0.01, 0.5, COMPLETENESS, 0.999])
def test_shares_reach_the_completeness_and_decisions_at_least_it(num_levels, num_solutions, completeness):
    scores = np.random.default_rng(num_levels + num_solutions).integers(num_levels, size=num_solutions) / 8
    rule = Acceptance.at(scores, completeness)
    assert rule.shares(scores).mean() == pytest.approx(completeness)
    accepted = rule.accepts(scores)
    assert accepted.mean() >= completeness - 1e-9
    # With the next higher score as the threshold, the completeness would be missed.
    assert (scores > rule.threshold).mean() < completeness


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("num_solutions", [20, 100, 240])  # of which .95 is a whole number
def test_without_ties_all_former_rules_accept_the_same_solutions(num_solutions, seed):
    """Shares of the report, `>=` of the app, and `>` of two interpolated quantiles in calibrations."""
    rng = np.random.default_rng(seed)
    correct = rng.normal(size=num_solutions)
    rule = Acceptance.at(correct)
    accepted = np.sort(correct)[num_solutions // 20 :]
    assert sorted(correct[rule.accepts(correct)]) == accepted.tolist()
    assert sorted(correct[rule.shares(correct) == 1]) == accepted.tolist()
    assert sorted(correct[correct >= accepted.min()]) == accepted.tolist()
    assert sorted(correct[correct > np.quantile(correct, 0.05)]) == accepted.tolist()
    grid = np.linspace(0, 1, 201)
    stored = np.interp(0.05, grid, np.quantile(correct, grid))
    assert sorted(correct[correct > stored]) == accepted.tolist()


def test_a_single_score_is_decided_on():
    rule = Acceptance.at([1.0, 2.0, 2.0, 3.0], 0.75)
    assert [bool(rule.accepts(score)) for score in (1.0, 2.0, 2.5)] == [False, True, True]
    assert rule.shares([1.0, 2.0, 2.5]).tolist() == [0.0, 1.0, 1.0]


@pytest.mark.parametrize("completeness", [0, 1, -0.1, 95, float("nan")])
def test_a_share_outside_its_range_is_refused(completeness):
    with pytest.raises(ValueError, match=f"completeness.*{completeness}"):
        Acceptance.at([1.0, 2.0], completeness)


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_a_score_that_is_not_finite_is_refused(score):
    with pytest.raises(ValueError, match=f"solution 1 is {score}"):
        Acceptance.at([1.0, score, 2.0])


def test_without_a_correct_solution_there_is_no_rule():
    with pytest.raises(ValueError, match="no threshold"):
        Acceptance.at([])
