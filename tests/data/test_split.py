from collections import Counter

import pytest
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st

from pvg_hf.core.seeding import derive_uniform
from pvg_hf.data.split import PARTS, split_problems
from tests.support.examples import examples


def problems(ids, **columns):
    ids = list(ids)
    return Dataset.from_dict(
        {
            "problem_id": [f"p{index}" for index in ids],
            "problem": [f"What is {index}?" for index in ids],
            "reference": [str(index) for index in ids],
            **columns,
        }
    )


TEST = problems(range(10_000, 10_020))


def part_of_each(split):
    return {problem_id: part for part in PARTS for problem_id in split[part]["problem_id"]}


def test_a_problems_part_depends_on_its_own_draw():
    # Shares .5 and .1: the verifier's problems end at .45 and .5, the prover's at .95 and 1.
    parts = part_of_each(split_problems(problems(range(300)), TEST, seed=3))
    for index in range(300):
        draw = derive_uniform(3, "split", f"p{index}")
        expected = next(part for part, end in zip(PARTS, (0.45, 0.5, 0.95, 1.0)) if draw < end)
        assert parts[f"p{index}"] == expected


def test_shares_are_fractions_of_the_remaining_problems():
    # A fifth for the test; of the rest a quarter for the verifier; half of each side held out.
    split = split_problems(
        problems(range(400), group=["x"] * 400),
        None,
        seed=0,
        test_share=0.2,
        verifier_share=0.25,
        heldout_share=0.5,
        stratify_by="group",
    )
    assert {part: len(split[part]) for part in PARTS} == {
        "verifier": 40,
        "verifier_heldout": 40,
        "prover": 120,
        "prover_heldout": 120,
        "test": 80,
    }


def test_the_tasks_own_test_split_is_kept_whole():
    split = split_problems(problems(range(300)), TEST, seed=0, test_share=0.5)
    assert split["test"]["problem_id"][:] == TEST["problem_id"][:]
    assert sum(len(split[part]) for part in PARTS) == 320


@examples(25)
@given(seed=st.integers(0, 2**32), num_more=st.integers(1, 200), has_test=st.booleans())
def test_adding_problems_does_not_move_existing_ones(seed, num_more, has_test):
    test = TEST if has_test else None
    before = part_of_each(split_problems(problems(range(400)), test, seed=seed))
    after = part_of_each(split_problems(problems(range(400 + num_more)), test, seed=seed))
    assert len(after) == 400 + num_more + 20 * has_test
    assert {problem_id: after[problem_id] for problem_id in before} == before


@examples(25)
@given(seed=st.integers(0, 2**32), sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_strata_are_split_as_exactly_as_rounding_allows(seed, sizes):
    sizes = [400, *sizes]
    strata = [f"s{index}" for index, size in enumerate(sizes) for _ in range(size)]
    train = problems(range(sum(sizes)), stratum=strata)
    split = split_problems(train, None, seed=seed, stratify_by="stratum")
    shares = {"verifier": 0.405, "verifier_heldout": 0.045, "prover": 0.405, "prover_heldout": 0.045, "test": 0.1}
    assert len(part_of_each(split)) == sum(sizes)
    for part, share in shares.items():
        counts = Counter(split[part]["stratum"])
        for index, size in enumerate(sizes):
            assert abs(counts[f"s{index}"] - size * share) < 1


def test_many_small_strata_still_fill_the_held_out_part():
    # 1,000 strata of one problem each: rounding every stratum alike would hold nothing out. The held-out part is
    # binomial with n 1,000 and p .05: mean 50, standard deviation 6.9, so five of them allow 15 to 85.
    train = problems(range(1000), stratum=list(range(1000)))
    split = split_problems(train, TEST, seed=1, stratify_by="stratum")
    assert 15 <= len(split["verifier_heldout"]) <= 85


@pytest.mark.parametrize("stratify_by", [None, "parity"])
def test_the_order_of_the_rows_does_not_matter(stratify_by):
    train = problems(range(200), parity=[index % 2 for index in range(200)])
    kwargs = {"seed": 5, "stratify_by": stratify_by}
    parts = part_of_each(split_problems(train, TEST, **kwargs))
    assert part_of_each(split_problems(train.select(range(199, -1, -1)), TEST, **kwargs)) == parts
    assert part_of_each(split_problems(train, TEST, seed=6, stratify_by=stratify_by)) != parts


def with_row(dataset, problem_id, problem):
    return Dataset.from_list([*dataset, {"problem_id": problem_id, "problem": problem, "reference": "1"}])


def across_parts(train):
    """The id of a problem in `verifier`, and an unused id that falls into `prover`."""
    first = split_problems(train, TEST, seed=0)["verifier"][0]
    others = (f"q{index}" for index in range(1000))
    return first, next(other for other in others if 0.5 < derive_uniform(0, "split", other) < 0.95)


def test_refuses_one_text_in_two_parts():
    train = problems(range(300))
    first, other = across_parts(train)
    leaking = with_row(train, other, f"  {first['problem']}\n")
    with pytest.raises(ValueError, match=rf"1 case, .*`{first['problem_id']}` in `verifier` and `{other}`"):
        split_problems(leaking, TEST, seed=0)


def test_allows_one_text_twice_in_one_part():
    train = problems(range(300))
    first = split_problems(train, TEST, seed=0)["verifier"][0]
    twin = next(f"q{index}" for index in range(1000) if derive_uniform(0, "split", f"q{index}") < 0.45)
    split = split_problems(with_row(train, twin, first["problem"]), TEST, seed=0)
    assert twin in split["verifier"]["problem_id"]


def test_refuses_one_id_with_two_texts():
    with pytest.raises(ValueError, match=r"`p7` has 2 rows with 2 .*texts"):
        split_problems(with_row(problems(range(300)), "p7", "Another?"), TEST, seed=0)


def test_refuses_one_id_in_train_and_test():
    with pytest.raises(ValueError, match=r"`p7` has 2 rows .*'test'"):
        split_problems(problems(range(300)), problems([7, 1000]), seed=0)


def test_refuses_one_text_in_train_and_test():
    with pytest.raises(ValueError, match="`other` in `test`"):
        split_problems(problems(range(300)), with_row(TEST, "other", "What is 5?"), seed=0)


@pytest.mark.parametrize("number", [1, 3])
def test_refuses_an_empty_part_and_says_the_sizes(number):
    with pytest.raises(ValueError, match=r"`verifier_heldout`.* \(sizes: verifier \d, .*test 20\)"):
        split_problems(problems(range(number)), TEST, seed=0)


@pytest.mark.parametrize("column", ["problem_id", "problem", "reference"])
def test_refuses_missing_columns(column):
    with pytest.raises(ValueError, match=rf"train problems .*\['{column}'\]"):
        split_problems(problems(range(9)).remove_columns(column), TEST, seed=0)
    with pytest.raises(ValueError, match=rf"test problems .*\['{column}'\]"):
        split_problems(problems(range(9)), TEST.remove_columns(column), seed=0)


def test_refuses_an_unknown_stratum_column():
    with pytest.raises(ValueError, match=r"lack .*\['level'\]"):
        split_problems(problems(range(9)), TEST, seed=0, stratify_by="level")


@pytest.mark.parametrize("name", ["verifier_share", "heldout_share", "test_share"])
@pytest.mark.parametrize("share", [50, 0, 1.0, -0.1])
def test_refuses_shares_out_of_range(name, share):
    with pytest.raises(ValueError, match=f"`{name}` is {share}"):
        split_problems(problems(range(300)), None, seed=0, **{name: share})
