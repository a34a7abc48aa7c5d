"""Draws the problems of a task from a seed."""

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
from datasets import Dataset

from pvg_hf.core.seeding import derive_rng
from pvg_hf.tasks.base import Split, check_split

MAX_REPEATS = 1000  # draws in a row without a new problem; then no more are looked for

Row = dict[str, Any]


def draw_problems(
    name: str, split: Split, draw: Callable[[np.random.Generator], Row], *, num_problems: Mapping[str, int], seed: int
) -> Dataset:
    """
    Draw the problems of a split. No text occurs twice in it, or in both splits.

    Args:
        split: `train` or `test`. The test problems do not depend on the number of training problems.
    Returns: [`~datasets.Dataset`]: the problems, with a `problem_id` that has the task, the seed, the split, the
        position and a hash of the text.
    Raises `ValueError` for an unknown split, or if `draw` finds fewer different problems.
    """
    check_split(split)
    rows = _draw_distinct(draw, derive_rng(seed, name, "test"), num_problems["test"], excluded=set())
    if split == "train":
        texts = {row["problem"] for row in rows}  # no test problem is trained on
        rows = _draw_distinct(draw, derive_rng(seed, name, "train"), num_problems["train"], excluded=texts)
    # The id has a hash of the text, so that other options give other ids.
    digests = [blake2b(row["problem"].encode(), digest_size=4).hexdigest() for row in rows]
    ids = (f"{name}-{seed}-{split}-{index:07d}-{digest}" for index, digest in enumerate(digests))
    return Dataset.from_list([{"problem_id": problem_id, **row} for problem_id, row in zip(ids, rows, strict=True)])


def _draw_distinct(
    draw: Callable[[np.random.Generator], Row], rng: np.random.Generator, number: int, excluded: set[str]
) -> list[Row]:
    rows: dict[str, Row] = {}
    repeats = 0
    while len(rows) < number:
        row = draw(rng)
        repeats += 1
        if row["problem"] not in excluded and row["problem"] not in rows:
            rows[row["problem"]] = row
            repeats = 0
        if repeats == MAX_REPEATS:
            raise ValueError(
                f"There are not {number} different problems with these options; found {len(rows)}. Widen the ranges of"
                " the options, or ask for fewer problems."
            )
    return list(rows.values())
