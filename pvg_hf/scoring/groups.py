"""Which inputs begin alike, so that their beginning is computed once."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

# Going on from a shared beginning costs a copy of its keys and values: below so many tokens it does not pay.
MIN_SHARED_TOKENS = 8
# A score is read at the last token, or at the one before it where end and padding are one token: both stay an input's own.
MIN_OWN_TOKENS = 2


@dataclass(frozen=True)
class Group:
    """
    Inputs that begin alike.

    Args:
        num_shared (`int`):
            How many tokens they have in common at their beginning.
        members (`list[int]`):
            Their indices, two or more.
    """

    num_shared: int
    members: list[int]


def group_by_beginning(inputs: Sequence[list[int]], problems: Sequence[str]) -> tuple[list[Group], list[int]]:
    """
    Args:
        inputs (`Sequence[list[int]]`):
            Token ids.
        problems (`Sequence[str]`):
            The problem of each: only inputs of one problem are compared.

    Returns:
        `tuple[list[Group], list[int]]`: groups, and the inputs that share too little.
    """
    by_problem: dict[str, list[int]] = defaultdict(list)
    for index, problem in enumerate(problems):
        by_problem[problem].append(index)
    groups, alone = [], []
    for members in by_problem.values():
        shared = num_shared([inputs[index] for index in members])
        if len(members) > 1 and shared >= MIN_SHARED_TOKENS:
            groups.append(Group(shared, members))
        else:
            alone += members
    return groups, alone


def num_shared(inputs: Sequence[list[int]]) -> int:
    """Length of the longest common beginning that leaves every input tokens of its own."""
    first, last = min(inputs), max(inputs)  # in the order of lists all others lie between, and share what these share
    limit = max(min(map(len, inputs)) - MIN_OWN_TOKENS, 0)
    return next((place for place in range(limit) if first[place] != last[place]), limit)


def check_texts(problems: Sequence[str], solutions: Sequence[str]) -> None:
    """
    Raises:
        ValueError: for a text in place of a list of texts, or lists of different lengths.
    """
    for name, texts in (("problems", problems), ("solutions", solutions)):
        if isinstance(texts, str):
            raise ValueError(f"`{name}` is the text {texts[:80]!r}; pass a list of texts, such as [{name[:-1]}].")
    if len(problems) != len(solutions):
        raise ValueError(
            f"There are {len(problems)} problems and {len(solutions)} solutions; each solution needs its problem."
        )
