from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pvg_hf.data.mixture import mixture_weights
from pvg_hf.data.pairs.choose import CANDIDATE, Candidates, choose_solutions
from tests.support.examples import examples


def candidates(counts, num_problems=1, *, are_shared=False):
    """
    The same candidates for every problem: `counts[source] = (number incorrect, number correct)`. With `are_shared`,
    the sources' n-th texts of a label are the same.
    """
    rows = [
        (
            0,
            problem,
            source,
            2,
            sample,
            label,
            label == 1,
            1000 * label + number + (0 if are_shared else 10**6 * (source + 1)),
        )
        for problem in range(num_problems)
        for source, numbers in counts.items()
        for sample, (label, number) in enumerate(
            (label, number) for label in (0, 1) for number in range(numbers[label])
        )
    ]
    return Candidates(np.array(rows, CANDIDATE), [f"p{index:05d}" for index in range(num_problems)])


def chosen_cells(pool, choice):
    """Count how often each (problem, source, label) was chosen."""
    rows = pool.rows[choice.chosen]
    return Counter(zip(rows["problem"].tolist(), rows["round_index"].tolist(), rows["label"].tolist()))


@examples(50)
@given(
    seed=st.integers(0, 2**32),
    slots=st.integers(2, 17),
    unscaled=st.lists(st.floats(0, 10), min_size=1, max_size=5).filter(lambda weights: sum(weights) > 0.01),
)
def test_slots_are_constant_balanced_and_follow_the_weights(seed, slots, unscaled):
    weights = {source - 1: weight / sum(unscaled) for source, weight in enumerate(unscaled)}
    pool = candidates({source: (9, 9) for source, weight in weights.items() if weight > 0}, num_problems=3)
    choice = choose_solutions(pool, weights, solutions_per_problem=slots, seed=seed, round_index=len(weights) - 1)
    cells = chosen_cells(pool, choice)
    assert len(np.unique(choice.chosen)) == len(choice.chosen) == 3 * slots
    assert choice.unfilled == 0
    assert not choice.short
    for problem in range(3):
        sides = [sum(cells[problem, source, label] for source in weights) for label in (0, 1)]
        assert abs(sides[0] - sides[1]) == slots % 2
        for source, weight in weights.items():
            numbers = [cells[problem, source, label] for label in (0, 1)]
            if slots % 2 == 0:
                assert numbers[0] == numbers[1]
            for side, number in zip(sides, numbers):
                assert abs(number - weight * side) < 1 + 1e-6


def test_expected_shares_are_the_weights():
    # One slot per label and problem: the number of problems whose slot goes to a source is binomial with n 3,000 and
    # p 1/15, 2/15, 4/15, 8/15; four standard deviations are at most 4 * sqrt(3000 / 4) = 110.
    weights = mixture_weights("exponential", 3)
    pool = candidates(dict.fromkeys(weights, (2, 2)), num_problems=3000)
    choice = choose_solutions(pool, weights, solutions_per_problem=2, seed=0, round_index=3)
    by_source = Counter(pool.rows["round_index"][choice.chosen].tolist())
    for source, weight in weights.items():
        assert abs(by_source[source] / 2 - 3000 * weight) < 110


def test_every_combination_of_sources_occurs():
    # Two slots per label over four equal sources: six couples, each expected in 50 of 300 problems.
    weights = mixture_weights("equal_per_round", 3)
    pool = candidates(dict.fromkeys(weights, (1, 1)), num_problems=300)
    choice = choose_solutions(pool, weights, solutions_per_problem=4, seed=0, round_index=3)
    sources = {}
    for problem, source, _ in chosen_cells(pool, choice):
        sources.setdefault(problem, set()).add(source)
    couples = Counter(frozenset(couple) for couple in sources.values())
    assert len(couples) == 6
    assert min(couples.values()) > 20


def test_all_samples_are_equally_likely():
    # 2 of 8 for each label: each sample is expected 500 times, with a standard deviation of sqrt(2000 * 3 / 16) = 19.
    pool = candidates({-1: (8, 8)}, num_problems=2000)
    choice = choose_solutions(pool, {-1: 1.0}, solutions_per_problem=4, seed=0, round_index=0)
    counts = Counter(pool.rows["sample_index"][choice.chosen].tolist())
    assert len(counts) == 16
    assert all(abs(count - 500) < 100 for count in counts.values())


def test_missing_samples_are_replaced_by_other_sources_and_counted():
    # Each of two sources owes 2 incorrect and 2 correct ones. The base has no incorrect one; round 0 fills both.
    pool = candidates({-1: (0, 5), 0: (5, 5)})
    choice = choose_solutions(pool, {-1: 0.5, 0: 0.5}, solutions_per_problem=8, seed=0, round_index=1)
    assert chosen_cells(pool, choice) == {(0, -1, 1): 2, (0, 0, 1): 2, (0, 0, 0): 4}
    assert choice.short == {"base/too_few_incorrect": 2}
    assert choice.refilled == {"round-000": 2}
    assert choice.unfilled == 0


def test_slots_that_no_source_can_fill_stay_empty():
    # 4 slots per label: 3 incorrect ones are all there is, and 1 correct one.
    pool = candidates({-1: (1, 1), 0: (2, 0)})
    choice = choose_solutions(pool, {-1: 0.5, 0: 0.5}, solutions_per_problem=8, seed=0, round_index=1)
    assert chosen_cells(pool, choice) == {(0, -1, 0): 1, (0, -1, 1): 1, (0, 0, 0): 2}
    assert choice.short == {"base/too_few_incorrect": 1, "base/too_few_correct": 1, "round-000/too_few_correct": 2}
    assert choice.refilled == {}
    assert choice.unfilled == 4


def test_a_text_that_all_sources_wrote_fills_a_slot_of_each():
    pool = candidates({-1: (1, 1), 0: (1, 1)}, are_shared=True)
    choice = choose_solutions(pool, {-1: 0.5, 0: 0.5}, solutions_per_problem=4, seed=0, round_index=1)
    assert chosen_cells(pool, choice) == {(0, source, label): 1 for source in (-1, 0) for label in (0, 1)}
    assert (choice.short, choice.unfilled) == ({}, 0)


def test_a_missing_slot_is_filled_with_a_text_that_is_not_chosen_yet():
    """
    The base prover has no incorrect text, round 0 has one, and round 1 has this one and another. Where round 1's own
    slot takes the other, the one that is left fills nothing.
    """
    pool = candidates({-1: (0, 1), 0: (1, 1), 1: (2, 1)}, num_problems=50, are_shared=True)
    choice = choose_solutions(
        pool, mixture_weights("equal_per_round", 2), solutions_per_problem=6, seed=0, round_index=2
    )
    rows = pool.rows[choice.chosen]
    incorrect = {problem: rows[(rows["problem"] == problem) & (rows["label"] == 0)] for problem in range(50)}
    texts = [sorted(found["text_hash"].tolist()) for found in incorrect.values()]
    assert {tuple(found) for found in texts} == {(0, 1), (0, 0, 1)}
    num_empty = texts.count([0, 1])
    assert choice.unfilled == num_empty
    assert (choice.short, choice.refilled) == ({"base/too_few_incorrect": 50}, {"round-001": 50 - num_empty})


def test_references_take_correct_slots():
    pool = candidates({-1: (5, 5)})
    for num_references, expected in ((1, 2), (3, 0), (6, 0)):
        choice = choose_solutions(
            pool, {-1: 1.0}, solutions_per_problem=6, seed=0, round_index=0, num_references=num_references
        )
        assert chosen_cells(pool, choice) == {(0, -1, 0): 3} | ({(0, -1, 1): expected} if expected else {})


@pytest.mark.parametrize(("seed", "round_index"), [(1, 0), (0, 1)])
def test_draws_depend_only_on_seed_round_and_problem(seed, round_index):
    def choose(pool, seed, round_index):
        weights = {-1: 1.0}
        return choose_solutions(pool, weights, solutions_per_problem=4, seed=seed, round_index=round_index)

    small, large = candidates({-1: (9, 9)}, num_problems=20), candidates({-1: (9, 9)}, num_problems=50)
    chosen = choose(small, 0, 0).chosen
    assert chosen.tolist() == choose(large, 0, 0).chosen[: len(chosen)].tolist()
    assert chosen.tolist() != choose(small, seed, round_index).chosen.tolist()
