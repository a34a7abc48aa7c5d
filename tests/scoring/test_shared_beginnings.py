from hypothesis import given
from hypothesis import strategies as st

from pvg_hf.scoring.batching import MIN_OWN_TOKENS, MIN_SHARED_TOKENS, Group, group_by_beginning, num_shared

BEGINNING = list(range(10, 20))


def test_groups_of_shared_beginnings_by_hand():
    inputs = [[*BEGINNING, 1, 2], [*BEGINNING, 3, 4, 5], [7, 8, 9], [*BEGINNING, 1, 1], [*BEGINNING, 1, 1, 1]]
    groups, alone = group_by_beginning(inputs, ["a", "a", "b", "b", "c"])
    assert groups == [Group(10, [0, 1])]  # problem b's inputs have nothing in common, c has one
    assert alone == [2, 3, 4]


def test_every_input_keeps_unshared_tokens():
    assert num_shared([BEGINNING, BEGINNING]) == 8
    assert num_shared([[1], [1, 2, 3]]) == 0
    assert num_shared([[1, 2, 3, 4], [1, 2, 5, 4]]) == 2


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=14), min_size=1, max_size=6), st.data())
def test_groups_share_a_problem_and_a_beginning(inputs, data):
    problems = data.draw(st.lists(st.sampled_from("ab"), min_size=len(inputs), max_size=len(inputs)))
    groups, alone = group_by_beginning(inputs, problems)
    assert sorted(alone + [index for group in groups for index in group.members]) == list(range(len(inputs)))
    for group in groups:
        assert len({problems[index] for index in group.members}) == 1
        assert len({tuple(inputs[index][: group.num_shared]) for index in group.members}) == 1
        assert group.num_shared >= MIN_SHARED_TOKENS
        assert all(len(inputs[index]) >= group.num_shared + MIN_OWN_TOKENS for index in group.members)
