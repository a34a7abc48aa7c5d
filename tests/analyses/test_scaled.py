"""Labels by scaled verification, each case worked by hand."""

import pytest

from pvg_hf.analyses.scaled import CheckedAnalysis, ScaledVerification, decide_label

YES, NO = (1.0, 1.0, 0.0), (1.0, 0.5, None)  # two of three confirm; one does, one half, one has no score


def analyses(*told) -> list[CheckedAnalysis]:
    return [CheckedAnalysis("", *one) if isinstance(one, tuple) else CheckedAnalysis("", one) for one in told]


@pytest.mark.parametrize(
    ("told", "k", "label"),
    [
        ([1, 1, 1], 3, 1.0),
        ([1, 1, None], 3, None),  # one cannot be read
        ([1, 1, None], 2, 1.0),
        ([(0.0, YES), (0.0, YES), 1], 2, 0.0),
        ([(0.0, YES), (0.0, NO), 1], 2, None),  # one confirmed is not enough, and 1 is contradicted
        ([(0.0, NO), (0.0, NO), 1, 1], 2, 1.0),  # nothing below 1 was confirmed
        ([(0.0, NO), (0.5, YES), (0.5, YES), 1, 1], 2, None),  # the lowest of all readable ones is 0
        ([(0.5, YES), (0.5, YES), 1, 1], 2, 0.5),
        ([(0.5, YES), (0.0, YES), (0.0, YES)], 2, 0.0),
        ([(0.5, YES), 1, 1, 1], 2, None),
        ([(0.0, YES)], 1, 0.0),
        ([None, None], 1, None),
        ([], 1, None),
    ],
)
def test_labels_by_scaled_verification_by_hand(told, k, label):
    assert decide_label(analyses(*told), k) == label


@pytest.mark.parametrize(
    ("qualities", "is_confirmed"),
    [((1.0,), True), ((0.5,), False), ((1.0, 1.0, None), True), ((1.0, None, None), False), ((), False)],
)
def test_a_majority_of_quality_1_confirms(qualities, is_confirmed):
    assert CheckedAnalysis("", 0.0, qualities).is_confirmed is is_confirmed


def test_only_predictions_below_one_need_checks():
    assert [one.needs_checks for one in analyses(0, 0.5, 1, None)] == [True, True, False, False]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_checks": 2}, r"`num_checks` \(m\) must be odd.*got 2"),
        ({"num_analyses": 2, "num_agreements": 3}, r"`num_agreements` \(k\) is 3, .*2 analyses"),
        ({"num_analyses": 0}, "`num_analyses` .*got 0"),
        ({"num_checks": -1}, "`num_checks` .*got -1"),
        ({"num_agreements": 0}, "`num_agreements` .*got 0"),
    ],
)
def test_invalid_numbers_are_errors(settings, message):
    with pytest.raises(ValueError, match=message):
        ScaledVerification(**settings)
