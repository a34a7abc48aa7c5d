"""Selects solutions of each problem by the weights of their rounds."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pvg_hf.core.disk_names import round_name
from pvg_hf.core.seeding import derive_rng
from pvg_hf.data.pairs.candidates import Candidates

SIDES = ("incorrect", "correct")
"""Names of the two labels, at the index of the label."""


@dataclass
class SelectedSolutions:
    """
    The solutions selected for a verifier.

    Args:
        chosen (`np.ndarray` of shape `(num_chosen,)`):
            Indices of candidates, sorted by problem, then label (if labels count), then at random.
        short (`Counter[str]`):
            Slots that a source could not fill, as `<source>/too_few_correct` and `<source>/too_few_incorrect`, or
            `<source>/too_few_solutions` if labels do not count.
        refilled (`Counter[str]`):
            Number of such slots that each source filled in place of another one.
        unfilled (`int`):
            Slots that stayed empty.
    """

    chosen: np.ndarray
    short: Counter[str] = field(default_factory=Counter)
    refilled: Counter[str] = field(default_factory=Counter)
    unfilled: int = 0


def choose_solutions(
    candidates: Candidates,
    weights: Mapping[int, float],
    *,
    solutions_per_problem: int,
    seed: int,
    round_index: int,
    num_references: int = 0,
    by_label: bool = True,
) -> SelectedSolutions:
    """
    Select `solutions_per_problem` of every problem's candidates, half labelled correct and half incorrect.

    Each source's own selection is also half and half. If `by_label` is False, labels do not count.

    A source's number of slots is its share, rounded up or down by a random draw for each problem, so that the expected
    share is the weight. A text that several sources wrote may fill a slot of each. If a source has too few candidates,
    others of the same problem and label fill the slot, with texts that are not chosen yet.

    Args:
        candidates ([`~pvg_hf.data.pairs.candidates.Candidates`]):
            Candidates of the sources with a weight above 0, and no others.
        weights (`Mapping[int, float]`):
            See [`~pvg_hf.data.mixture.mixture_weights`].
        solutions_per_problem (`int`):
            At least 2. If it is odd, a draw assigns the odd slot to one of the labels.
        seed (`int`), round_index (`int`):
            The recipe's seed and the verifier's round; together with the problem they seed every draw.
        num_references (`int`, defaults to 0):
            Number of slots for correct solutions to leave free for references.
        by_label (`bool`, defaults to `True`):
            Whether labels count. Selecting by noisy labels changes the share of wrong labels among the selected.
    """
    rows = candidates.rows
    sources = [source for source in sorted(weights) if weights[source] > 0]
    draws = _draw(candidates, len(sources), seed, round_index)
    if by_label:
        sides, label = SIDES, rows["label"]
        num_incorrect = solutions_per_problem // 2 + (draws.coin < 0.5) * (solutions_per_problem % 2)
        nums = (num_incorrect, np.maximum(solutions_per_problem - num_incorrect - num_references, 0))
    else:
        sides, label = ("solutions",), np.zeros_like(rows["label"])
        nums = (np.full(len(candidates.problem_ids), solutions_per_problem),)
    shares = np.array([weights[source] for source in sources])
    # (num_problems, num_sides, num_sources); one offset for both labels, so that a source is half and half
    slots = np.stack([_allot(shares, num, draws.offset, draws.order) for num in nums], axis=1)
    side = rows["problem"].astype(np.int64) * len(sides) + label
    cell = side * len(sources) + np.searchsorted(sources, rows["round_index"])
    is_chosen = _rank_within(cell, draws.priority) < slots.ravel()[cell]
    missing = np.maximum(slots - np.bincount(cell, minlength=slots.size).reshape(slots.shape), 0)

    # Fill missing slots with the remaining candidates of the same problem and label, in the order of their priority.
    left = np.flatnonzero(~is_chosen & _is_new_text(rows, is_chosen, draws.priority))
    refill = left[_rank_within(side[left], draws.priority[left]) < missing.sum(axis=2).ravel()[side[left]]]
    is_chosen[refill] = True
    chosen = np.flatnonzero(is_chosen)
    return SelectedSolutions(
        chosen=chosen[np.lexsort((draws.priority[chosen], side[chosen]))],
        short=_count_missing(missing, sources, sides),
        refilled=count_by_source(rows["round_index"][refill]),
        unfilled=int(missing.sum()) - len(refill),
    )


def count_by_source(round_indices: np.ndarray) -> Counter[str]:
    """Count how often each round occurs, by its name."""
    rounds, counts = np.unique(round_indices, return_counts=True)
    return Counter(dict(zip(map(round_name, rounds.tolist()), counts.tolist())))


@dataclass(frozen=True)
class _Draws:
    """
    Uniform draws in [0, 1), from a separate generator for each problem.

    Args:
        offset (`np.ndarray`), coin (`np.ndarray`), of shape `(num_problems,)`:
            Draws for [`_allot`] and for the odd slot.
        order (`np.ndarray` of shape `(num_problems, num_sources)`):
            A random order of the sources.
        priority (`np.ndarray` of shape `(num_candidates,)`):
            Candidates with the lowest values are selected.
    """

    offset: np.ndarray
    coin: np.ndarray
    order: np.ndarray
    priority: np.ndarray


def _draw(candidates: Candidates, num_sources: int, seed: int, round_index: int) -> _Draws:
    num_problems = len(candidates.problem_ids)
    of_problem = np.zeros((num_problems, 2 + num_sources))
    of_candidate = np.empty(len(candidates.rows))
    ends = np.cumsum(np.bincount(candidates.rows["problem"], minlength=num_problems)).tolist()
    start = 0
    for problem, (problem_id, end) in enumerate(zip(candidates.problem_ids, ends)):
        if end > start:
            rng = derive_rng(seed, round_name(round_index), "pairs", problem_id)
            of_problem[problem] = rng.random(2 + num_sources)
            of_candidate[start:end] = rng.random(end - start)
        start = end
    return _Draws(of_problem[:, 0], of_problem[:, 1], np.argsort(of_problem[:, 2:], axis=1), of_candidate)


def _allot(shares: np.ndarray, num_slots: np.ndarray, offset: np.ndarray, order: np.ndarray) -> np.ndarray:
    """
    Distribute slots over the sources by systematic rounding.

    The cumulated shares divide a line into one interval per source, and the line is shifted by the offset. A source
    gets the number of integers in its interval. This is its share rounded up or down, and equals its share in
    expectation over the offset. The order only determines which sources are rounded up together.

    Args:
        shares (`np.ndarray` of shape `(num_sources,)`):
            Weights with any sum.
        num_slots (`np.ndarray`), offset (`np.ndarray`), of shape `(num_problems,)`:
            Number of slots, and offset in [0, 1).
        order (`np.ndarray` of shape `(num_problems, num_sources)`):
            Order of the sources on the line.

    Returns:
        `np.ndarray` of shape `(num_problems, num_sources)`: integers; each row sums to `num_slots`.
    """
    cumulated = np.cumsum(shares[order], axis=1) / shares.sum()
    # Rounded, because 3 * (1/3 + 1/3) may be below 2 by the last bit, and `floor` would make it 1.
    ends = np.floor(np.round(cumulated * num_slots[:, None], 9) + offset[:, None]).astype(np.int64)
    slots = np.empty_like(ends)
    np.put_along_axis(slots, order, np.diff(ends, axis=1, prepend=0), axis=1)
    return slots


def _rank_within(group: np.ndarray, priority: np.ndarray) -> np.ndarray:
    """Rank each element within its group by priority, from 0."""
    order = np.lexsort((priority, group))
    ordered = group[order]
    rank = np.empty(len(group), dtype=np.int64)
    rank[order] = np.arange(len(group)) - np.searchsorted(ordered, ordered)
    return rank


def _is_new_text(rows: np.ndarray, is_chosen: np.ndarray, priority: np.ndarray) -> np.ndarray:
    """Whether a candidate is the first of its problem with its text: chosen ones come first, then by priority."""
    order = np.lexsort((priority, ~is_chosen, rows["text_hash"], rows["problem"]))
    ordered = rows[order]
    is_new = np.ones(len(rows), dtype=bool)
    is_new[order[1:]] = np.any([ordered[name][1:] != ordered[name][:-1] for name in ("problem", "text_hash")], axis=0)
    return is_new


def _count_missing(missing: np.ndarray, sources: Sequence[int], sides: Sequence[str]) -> Counter[str]:
    counts = missing.sum(axis=0)
    return Counter(
        {
            f"{round_name(source)}/too_few_{name}": int(counts[side, index])
            for side, name in enumerate(sides)
            for index, source in enumerate(sources)
            if counts[side, index]
        }
    )
