from collections import Counter

import pytest

from pvg_hf.trainers.reward.invariance import BalancedSampler, check_batch, environments_per_batch


def batches(sampler, size):
    order = list(sampler)
    assert len(order) == len(sampler)
    return [order[start : start + size] for start in range(0, len(order), size)]


def test_every_batch_holds_as_many_of_each():
    environments = ["base"] * 10 + ["b"] * 3 + ["c"] * 7
    found = batches(BalancedSampler(environments, 6, seed=0), 6)
    assert len(found) == 4  # 20 rows
    for batch in found:
        assert Counter(environments[row] for row in batch) == {"base": 2, "b": 2, "c": 2}
    # eight of the small environment's three rows: all of them before one comes again
    small = [row for batch in found for row in batch if environments[row] == "b"]
    assert sorted(small[:3]) == sorted(small[3:6]) == [10, 11, 12]
    large = [row for batch in found for row in batch if environments[row] == "base"]
    assert len(set(large)) == 8


def test_environments_that_no_batch_holds_come_in_turn():
    environments = ["a", "b", "c", "d", "e"] * 8
    found = batches(BalancedSampler(environments, 4, seed=0), 4)
    seen = Counter()
    for batch in found:
        counts = Counter(environments[row] for row in batch)
        assert len(counts) == 4
        seen.update(counts.keys())
    assert set(seen.values()) == {8}  # of ten batches, each environment is in four of five


def test_an_epoch_has_an_order_of_its_own():
    sampler = BalancedSampler(["a", "b"] * 10, 4, seed=0)
    first, again = list(sampler), list(sampler)
    sampler.set_epoch(1)
    assert first == again != list(sampler)
    assert list(BalancedSampler(["a", "b"] * 10, 4, seed=1)) != first


@pytest.mark.parametrize(
    ("num_environments", "batch_size", "expected"),
    [(1, 8, 1), (3, 8, 2), (5, 32, 4), (5, 10, 5), (9, 4, 4), (3, 7, 1)],
)
def test_environments_per_batch(num_environments, batch_size, expected):
    assert environments_per_batch(num_environments, batch_size) == expected


@pytest.mark.parametrize(
    ("num_environments", "batch_size", "is_balanced", "crowded", "message"),
    [
        (3, 8, True, "refuse", "cannot hold 3 environments evenly. Take a multiple of 3"),
        (9, 8, False, "refuse", "cannot hold 9 environments. Take a multiple of 9"),
        (3, 7, True, "cycle", "take an even batch size"),
        (3, 8, True, "cycle", None),
        (3, 7, False, "refuse", None),
        (1, 7, True, "refuse", None),
    ],
)
def test_batches_that_hold_too_little_are_refused(num_environments, batch_size, is_balanced, crowded, message):
    def check():
        check_batch(num_environments, batch_size, is_balanced=is_balanced, crowded=crowded)

    if message is None:
        check()
    else:
        with pytest.raises(ValueError, match=message):
            check()
