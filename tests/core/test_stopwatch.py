"""The split of time by kind of work, with work that sleeps."""

import threading
import time

import pytest

from pvg_hf.core.stopwatch import (
    EVALUATING,
    GRADING,
    OTHER,
    SCORING,
    TRAINING,
    UNKNOWN,
    WRITING,
    Spent,
    add_splits,
    count_tokens,
    describe_shares,
    measuring,
    spending,
    spent_so_far,
)

NAP = 0.02  # seconds; a sleep is never shorter


@spending(WRITING)
def write() -> None:
    time.sleep(NAP)
    count_tokens(10, 2.0)


def test_seconds_count_for_the_innermost_kind():
    with measuring() as stopwatch:
        with spending(TRAINING):
            time.sleep(NAP)
            write()
            with spending(SCORING):
                time.sleep(2 * NAP)
        split = stopwatch.read()
    assert set(split) == {OTHER, TRAINING, WRITING, SCORING}
    assert split[TRAINING].seconds >= NAP
    assert split[SCORING].seconds >= 2 * NAP
    assert (split[WRITING].tokens, split[WRITING].flops, split[TRAINING].tokens) == (10, 20.0, 0)


def test_an_evaluation_keeps_all_that_happens_in_it():
    with measuring() as stopwatch:
        with spending(TRAINING), spending(EVALUATING):
            write()
            with spending(GRADING):
                time.sleep(NAP)
        split = stopwatch.read()
    assert split[EVALUATING].seconds >= 2 * NAP
    assert not {WRITING, GRADING} & set(split)


def test_the_kinds_add_up_to_the_whole_time():
    start = time.perf_counter()
    with measuring():
        write()
        with pytest.raises(KeyError), spending(SCORING):
            raise KeyError
        time.sleep(NAP)
        split = spent_so_far()
    whole = time.perf_counter() - start
    assert 2 * NAP <= sum(spent.seconds for spent in split.values()) <= whole
    assert split[OTHER].seconds >= NAP  # the failed block was left


def test_nothing_is_measured_outside_and_in_other_threads():
    write()
    assert spent_so_far() == {}
    with measuring() as stopwatch:
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
    assert set(stopwatch.read()) == {OTHER}


def test_rates_and_shares():
    spent = Spent(seconds=4.0, tokens=200, flops=8e12)
    assert spent.tokens_per_second == 50.0
    assert spent.mfu(100e12) == 0.02
    assert (spent.mfu(None), Spent(4.0).mfu(1e12), Spent(4.0).tokens_per_second) == (None, None, None)
    split = {TRAINING: Spent(30.0), WRITING: Spent(60.0), OTHER: Spent(9.8), GRADING: Spent(0.2)}
    assert describe_shares(split) == "60 % writing, 30 % training, 10 % other"
    assert describe_shares({}) == ""


def test_parts_of_a_phase_add_up():
    first, second = (
        {WRITING: Spent(1.0, 5, 10.0), UNKNOWN: Spent(2.0)},
        {OTHER: Spent(3.0), WRITING: Spent(1.0, 1, 2.0)},
    )
    assert add_splits(first, second) == {WRITING: Spent(2.0, 6, 12.0), OTHER: Spent(3.0), UNKNOWN: Spent(2.0)}
