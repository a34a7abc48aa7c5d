"""Selects the solutions of a study and draws each participant's sheet: blinded, balanced and seeded."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pvg_hf.core.seeding import derive_seed

CELL = ["round_index", "role", "correct"]
_ITEM = ["problem_id", *CELL]


@dataclass(frozen=True)
class StudyItem:
    """
    A solution to be judged.

    Args:
        item: An opaque id.
        problem_id, round_index, role, correct: Origin and correctness, hidden from participants.
    """

    item: str
    problem_id: str
    round_index: int
    role: str
    correct: bool
    problem: str
    solution: str


def choose_items(solutions: pd.DataFrame, seed: int) -> pd.DataFrame:
    """
    Draw at most one correct and one incorrect solution per problem and prover.

    Args:
        solutions: Solutions with a final answer: `problem_id`, `round_index`, `role`, `correct`, and `num_flaws` (null
            if no checker counted flaws). Solutions with a correct answer and a flawed step are left out, as their true
            label is ambiguous.
    Returns: the drawn rows, with their `item` ids.
    """
    is_clear = ~(solutions["correct"].astype(bool) & (solutions["num_flaws"].fillna(0) > 0))
    drawn = solutions[is_clear].sample(frac=1, random_state=np.random.default_rng(derive_seed(seed, "study")))
    items = drawn.drop_duplicates(_ITEM).sort_values(_ITEM, ignore_index=True)
    ids = [f"{derive_seed(seed, 'study', *key):016x}"[:12] for key in items[_ITEM].itertuples(index=False)]
    return items.assign(item=ids)


def draw_sheet(
    items: pd.DataFrame, num_solutions: int, num_given: Mapping[str, int], rng: np.random.Generator
) -> pd.DataFrame:
    """
    Draw the solutions of one participant.

    Correct and incorrect solutions are drawn in turn, each from the round and role with the fewest solutions so far,
    and at most one per problem. The sheet is then shuffled.

    Args:
        num_solutions: Maximum number of solutions; there are fewer if there are not enough problems.
        num_given: How often each item was given to other participants; items given least often come first.
        rng: Generator that breaks ties and shuffles.
    """
    # Items given least often come first, in random order among equals.
    ranked = items.assign(given=[num_given.get(item, 0) for item in items["item"]], tie=rng.random(len(items)))
    ranked = ranked.sort_values(["given", "tie"])
    # One queue per (round, role, correctness). It is an iterator, so that a skipped solution is not considered again.
    queues = {cell: iter(zip(rows.index, rows["problem_id"])) for cell, rows in ranked.groupby(CELL)}
    taken: dict[str, int] = {}  # row by problem
    num_taken: Counter[tuple] = Counter()
    while len(taken) < num_solutions:
        # Alternate between correct and flawed solutions; if one kind has run out, fill up with the other.
        is_correct = len(taken) % 2 == 0
        if not any(_take(queues, taken, num_taken, wanted, rng) for wanted in (is_correct, not is_correct)):
            break
    return items.loc[rng.permutation(list(taken.values()))]


def _take(
    queues: dict[tuple, Iterator[tuple[int, str]]],
    taken: dict[str, int],
    num_taken: Counter[tuple],
    is_correct: bool,
    rng: np.random.Generator,
) -> bool:
    """Add one solution of this correctness to the sheet, and return whether there was one."""
    cells = [cell for cell in queues if cell[-1] == is_correct]
    order = rng.permutation(len(cells))
    for cell in sorted((cells[index] for index in order), key=lambda cell: num_taken[cell]):
        found = next(((row, problem) for row, problem in queues[cell] if problem not in taken), None)
        if found is not None:
            taken[found[1]] = found[0]
            num_taken[cell] += 1
            return True
    return False
