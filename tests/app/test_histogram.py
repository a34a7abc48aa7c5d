"""The histogram of scores."""

import numpy as np
import pytest

from pvg_hf.app.histogram import NUM_BINS, make_histogram


def scores(correct, incorrect) -> dict[bool, np.ndarray]:
    return {True: np.sort(correct), False: np.sort(incorrect)}


def test_bars_are_shares_of_their_kind_and_the_highest_fills_the_chart():
    # Three of four correct scores lie together, and both incorrect ones: shares 3/4, 1/4 and 1.
    histogram = make_histogram(scores([5.0, 5.0, 5.0, 9.0], [1.0, 1.0]), {})
    correct, incorrect = zip(*histogram.bars)
    assert [height for height in correct if height] == pytest.approx([75, 25])
    assert [height for height in incorrect if height] == pytest.approx([100])
    assert histogram.counts == {True: 4, False: 2}
    assert len(histogram.bars) == NUM_BINS


def test_marks_and_ticks_are_placed_at_their_scores():
    histogram = make_histogram(scores([0.0, 10.0], [5.0]), {"helpful": 10.0, "sneaky": None, "threshold": 5.0})
    helpful, threshold = histogram.marks
    assert (helpful.name, threshold.name) == ("helpful", "threshold")
    assert threshold.place == pytest.approx(50)
    places = {float(label): place for label, place in histogram.ticks}
    assert places[10] == pytest.approx(helpful.place)
    assert list(places.values()) == sorted(places.values())


def test_a_mark_beyond_all_scores_is_within_the_chart():
    (mark,) = make_histogram(scores([0.0], [1.0]), {"helpful": 50.0}).marks
    assert 0 < mark.place < 100


def test_equal_scores_and_no_scores_can_be_drawn():
    assert make_histogram(scores([], []), {"helpful": 1.0}) is None
    assert max(height for bar in make_histogram(scores([2.0, 2.0], []), {}).bars for height in bar) == 100
