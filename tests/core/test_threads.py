import threading

import pytest

from pvg_hf.core.threads import call_in_threads


@pytest.mark.parametrize("num_threads", [1, 3])
def test_results_have_the_order_of_the_arguments(num_threads):
    assert call_in_threads(pow, [(2, 3), (3, 2), (5, 1), (7, 0)], num_threads) == [8, 9, 5, 1]
    assert call_in_threads(pow, [], num_threads) == []


def test_calls_are_made_at_the_same_time():
    barrier = threading.Barrier(3, timeout=100)  # which three calls must reach together
    assert sorted(call_in_threads(lambda _: barrier.wait(), [(0,), (1,), (2,)], 3)) == [0, 1, 2]


@pytest.mark.parametrize("num_threads", [1, 2])
def test_an_error_is_raised(num_threads):
    with pytest.raises(ZeroDivisionError):
        call_in_threads(divmod, [(1, 1), (1, 0), (2, 1)], num_threads)
