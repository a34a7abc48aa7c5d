"""
Chooses the solutions of a pool that are used in pairs, and matches them; without their texts, so that a million fit in
memory.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pvg_hf.core.disk_names import round_name
from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_rng
from pvg_hf.data.pool import PathLike, iterate_pool
from pvg_hf.data.schema import FAILED_OUTCOMES

ROLES = tuple(Role)

CANDIDATE = np.dtype(
    [
        ("row", "i8"),  # position in the stream of the pool's files
        ("problem", "i4"),  # index into the problem ids
        ("round_index", "i4"),
        ("role", "i1"),  # index into ROLES
        ("sample_index", "i4"),
        ("label", "i1"),  # the label shown to the verifier: 1 correct, 0 incorrect
        ("correct", "?"),  # the truth
        ("text_hash", "u8"),
    ]
)

# Fields that order candidates independently of files and rows; the least significant comes first, as for `np.lexsort`.
IDENTITY = ("text_hash", "sample_index", "role", "round_index", "problem")

_COLUMNS = ("problem_id", "part", "role", "round_index", "sample_index", "label", "correct", "outcome", "solution")


@dataclass
class Candidates:
    """
    The solutions that can be used in pairs, and counts of the others.

    Args:
        rows: shape `(num_candidates,)`. Sorted by problem, round, role and sample. The texts that a source (the base
            prover or a round) wrote for a problem are distinct up to surrounding white space; several sources may have
            written the same one.
        problem_ids: Sorted ids of all problems that were read, including those without a candidate.
        dropped: Number of those that are no candidates, by the first reason that applies.
    """

    rows: np.ndarray
    problem_ids: list[str]
    num_solutions: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)


def read_candidates(
    pool_paths: PathLike | Sequence[PathLike],
    *,
    parts: Collection[str],
    rounds: Collection[int],
    skip_references: bool = False,
) -> Candidates:
    """
    Read the candidates of a pool in one streamed pass.

    Args:
        parts: Parts of the split to read; solutions of other parts are not counted.
        rounds: Rounds to read; solutions of others are counted as dropped.
    """
    result = Candidates(np.empty(0, CANDIDATE), [])
    codes: dict[str, int] = {}
    blocks, num_rows = [result.rows], 0
    columns = [*_COLUMNS, "reference"] if skip_references else list(_COLUMNS)
    for batch in iterate_pool(pool_paths, columns):
        rows = np.arange(num_rows, num_rows + batch.num_rows)
        num_rows += batch.num_rows
        blocks.append(_candidates_of(batch, rows, parts, rounds, codes, result))
    result.rows = np.concatenate(blocks)
    _sort_problems(result, codes)
    _drop_duplicates(result)
    return result


def _candidates_of(
    batch: pa.RecordBatch,
    rows: np.ndarray,
    parts: Collection[str],
    rounds: Collection[int],
    codes: dict[str, int],
    result: Candidates,
) -> np.ndarray:
    """Return the candidates of one batch; adds its problems to `codes` and its counts to `result`."""
    is_in_parts = _is_in(batch["part"], parts)
    rows, batch = rows[is_in_parts], batch.filter(pa.array(is_in_parts))
    result.num_solutions += len(rows)
    problem = _encode(batch["problem_id"], lambda problem_id: codes.setdefault(problem_id, len(codes)))
    is_kept = _count_drops(batch, rounds, result)
    rows, batch = rows[is_kept], batch.filter(pa.array(is_kept))

    block = np.empty(len(rows), CANDIDATE)
    block["row"], block["problem"] = rows, problem[is_kept]
    block["role"] = _encode(batch["role"], lambda role: ROLES.index(Role(role)))
    block["text_hash"] = _text_hashes(batch["solution"])
    for name in ("round_index", "sample_index", "label", "correct"):
        block[name] = batch[name].to_numpy(zero_copy_only=False)
    return _drop_references(block, batch["reference"], result) if "reference" in batch.schema.names else block


def _count_drops(batch: pa.RecordBatch, rounds: Collection[int], result: Candidates) -> np.ndarray:
    """Return a mask of the possible candidates, and count the other rows by the first reason that applies."""
    reasons = {
        "outside_mixture": ~_is_in(batch["round_index"], rounds),
        "failed": _is_in(batch["outcome"], FAILED_OUTCOMES),
        "abstained": batch["label"].is_null().to_numpy(zero_copy_only=False),
    }
    is_failed = ~reasons["outside_mixture"] & reasons["failed"]
    result.failed.update(batch["outcome"].filter(pa.array(is_failed)).to_pylist())
    is_kept = np.ones(len(batch), dtype=bool)
    for reason, applies in reasons.items():
        result.dropped[reason] += int((is_kept & applies).sum())
        is_kept &= ~applies
    return is_kept


def _drop_references(block: np.ndarray, references: pa.Array, result: Candidates) -> np.ndarray:
    is_reference = block["text_hash"] == _text_hashes(references)
    result.dropped["same_as_reference"] += int(is_reference.sum())
    return block[~is_reference]


def _sort_problems(result: Candidates, codes: dict[str, int]) -> None:
    """Renumber the problems by their sorted ids; `codes` numbers them in order of appearance."""
    result.problem_ids = sorted(codes)
    new_codes = np.empty(len(codes), dtype=np.int32)
    new_codes[[codes[problem_id] for problem_id in result.problem_ids]] = np.arange(len(codes))
    result.rows["problem"] = new_codes[result.rows["problem"]]


def _drop_duplicates(result: Candidates) -> None:
    """Keep each text of a problem once per round, for the first role and sample that wrote it."""
    rows = result.rows
    texts = ("text_hash", "round_index", "problem")
    rows = rows[np.lexsort([rows[name] for name in ("sample_index", "role", *texts)])]
    is_first = np.ones(len(rows), dtype=bool)
    is_first[1:] = np.any([rows[name][1:] != rows[name][:-1] for name in texts], axis=0)
    result.dropped["duplicate_text"] += int((~is_first).sum())
    rows = rows[is_first]
    result.rows = rows[np.lexsort([rows[name] for name in IDENTITY])]


def _is_in(column: pa.Array, values: Collection[object]) -> np.ndarray:
    allowed = pa.array(list(values), type=column.type)
    return pc.is_in(column, value_set=allowed).to_numpy(zero_copy_only=False)


def _encode(texts: pa.Array, code_of: Callable[[str], int]) -> np.ndarray:
    encoded = texts.dictionary_encode()
    codes = np.array([code_of(text) for text in encoded.dictionary.to_pylist()], dtype=np.int32)
    return codes[encoded.indices.to_numpy()]


def _text_hashes(texts: pa.Array) -> np.ndarray:
    """Hash the texts without surrounding white space to 64 bits; unlike `hash`, the same in every process."""
    digests = b"".join(blake2b(text.strip().encode(), digest_size=8).digest() for text in texts.to_pylist())
    return np.frombuffer(digests, dtype=np.uint64)


SIDES = ("incorrect", "correct")
"""Names of the two labels, at the index of the label."""


@dataclass
class SelectedSolutions:
    """
    The solutions selected for a verifier.

    Args:
        chosen: shape `(num_chosen,)`. Indices of candidates, sorted by problem, then label (if labels count), then at
            random.
        short, refilled, unfilled: As in [`~pvg_hf.data.pairs.build.PairReport`].
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
        candidates: Candidates of the sources with a weight above 0, and no others.
        weights: See [`~pvg_hf.data.mixture.mixture_weights`].
        solutions_per_problem: At least 2. If it is odd, a draw assigns the odd slot to one of the labels.
        seed, round_index: The recipe's seed and the verifier's round; together with the problem they seed every draw.
        num_references: Number of slots for correct solutions to leave free for references.
        by_label: Whether labels count. Selecting by noisy labels changes the share of wrong labels among the selected.
    """
    rows = candidates.rows
    sources = [source for source in sorted(weights) if weights[source] > 0]
    draws = _draw(candidates, len(sources), seed, round_index)
    sides: tuple[str, ...]
    nums: tuple[np.ndarray, ...]
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


class _Draws(NamedTuple):
    """Uniform draws in [0, 1), from a separate generator for each problem."""

    offset: np.ndarray  # (num_problems,), for `_allot`
    coin: np.ndarray  # (num_problems,), for the odd slot
    order: np.ndarray  # (num_problems, num_sources): a random order of the sources
    priority: np.ndarray  # (num_candidates,); those with the lowest values are selected


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
        shares: shape `(num_sources,)`. Weights with any sum.
        num_slots, offset: shape `(num_problems,)`. Number of slots, and offset in [0, 1).
        order: shape `(num_problems, num_sources)`. Order of the sources on the line.
    Returns: integers of shape `(num_problems, num_sources)`; each row sums to `num_slots`.
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
    places = [f"{round_name(source)}/too_few_{name}" for name in sides for source in sources]
    counts = missing.sum(axis=0).ravel().tolist()  # by side, then source
    return Counter({place: count for place, count in zip(places, counts, strict=True) if count})


@dataclass(frozen=True)
class Matches:
    """
    Pairs of solutions as indices.

    Args:
        problem: shape `(num_pairs,)`. Index of the problem.
        correct: shape `(num_pairs,)`. Index of the candidate labelled correct, or -1 for the problem's reference; in a
            tie, the earlier candidate.
        incorrect: shape `(num_pairs,)`. Index of the candidate labelled incorrect; in a tie, the later candidate.
        without_pair: Number of problems without a pair, by what is missing.
    """

    problem: np.ndarray
    correct: np.ndarray
    incorrect: np.ndarray
    without_pair: dict[str, int]

    def reordered(self, order: np.ndarray) -> "Matches":
        return replace(self, problem=self.problem[order], correct=self.correct[order], incorrect=self.incorrect[order])


def match_solutions(candidates: Candidates, chosen: np.ndarray, max_pairs: int, *, has_reference: bool) -> Matches:
    """
    Match the chosen solutions of each problem in turns.

    With m correct and n incorrect solutions, turn t takes correct t mod m and incorrect (t + t // lcm(m, n)) mod n. No
    pair is repeated before all m n pairs have occurred, and all solutions are used equally often (up to one). A pair
    of one text with itself, which two sources wrote and whose noisy labels differ, is left out.

    Args:
        chosen: shape `(num_chosen,)`. Indices of candidates, sorted by problem, then label.
        has_reference: Whether each problem's reference is an additional correct solution, the first in turn.
    """
    num_problems = len(candidates.problem_ids)
    rows = candidates.rows[chosen]
    side = rows["problem"].astype(np.int64) * len(SIDES) + rows["label"]
    num_found = np.bincount(side, minlength=num_problems * len(SIDES))
    first = (np.cumsum(num_found) - num_found).reshape(-1, len(SIDES))  # start of the problem's side in `chosen`
    num_incorrect, num_correct = num_found.reshape(-1, len(SIDES)).T
    num_correct = num_correct + has_reference

    num_pairs = np.minimum(max_pairs, num_correct * num_incorrect)
    problem = np.repeat(np.arange(num_problems), num_pairs)
    turn = np.arange(len(problem)) - np.repeat(np.cumsum(num_pairs) - num_pairs, num_pairs)
    # After lcm(m, n) turns both indices would repeat together, so each further lap shifts the incorrect side by one.
    lap = turn // np.lcm(num_correct, num_incorrect)[problem]
    correct = turn % num_correct[problem] - has_reference  # the reference comes first, as -1
    correct = np.where(correct < 0, -1, chosen[first[problem, 1] + correct])
    incorrect = chosen[first[problem, 0] + (turn + lap) % num_incorrect[problem]]
    differs = (correct < 0) | _differ(candidates, correct, incorrect)
    without_pair = {
        "no_solution": int(((num_correct == 0) & (num_incorrect == 0)).sum()),
        "no_correct": int(((num_correct == 0) & (num_incorrect > 0)).sum()),
        "no_incorrect": int(((num_correct > 0) & (num_incorrect == 0)).sum()),
        "one_text": len(np.unique(problem)) - len(np.unique(problem[differs])),
    }
    return Matches(problem[differs], correct[differs], incorrect[differs], without_pair)


def match_all(candidates: Candidates, chosen: np.ndarray, *, share: float, seed: int, round_index: int) -> Matches:
    """
    Form all unordered pairs of each problem's chosen solutions, or a random share of them.

    The share is drawn regardless of the labels: every pair is kept with the same probability, so that a mean over the
    kept pairs is an unbiased estimate of the mean over all pairs. Pairs of one text with itself, which two sources
    wrote, are left out: they have no gradient.

    Args:
        chosen: shape `(num_chosen,)`. Indices of candidates.
        share: Probability that a pair is kept, in (0, 1].
        seed, round_index: The recipe's seed and the verifier's round, from which the draws are derived.
    """
    chosen = np.sort(chosen)  # sorted by problem, then round, role and sample
    problems, sizes = np.unique(candidates.rows["problem"][chosen], return_counts=True)
    first, second = (chosen[index] for index in _index_pairs(sizes))
    differs = _differ(candidates, first, second)
    num_with_pair = len(np.unique(candidates.rows["problem"][first[differs]]))
    is_kept = derive_rng(seed, round_name(round_index), "pairs", "share").random(len(first)) < share
    first, second = first[is_kept & differs], second[is_kept & differs]
    label = candidates.rows["label"]
    is_turned = label[first] < label[second]
    return Matches(
        problem=candidates.rows["problem"][first].astype(np.int64),
        correct=np.where(is_turned, second, first),
        incorrect=np.where(is_turned, first, second),
        without_pair={
            "no_solution": len(candidates.problem_ids) - len(problems),
            "one_text": len(problems) - num_with_pair,
        },
    )


def _differ(candidates: Candidates, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Whether the texts of two candidates of one problem differ."""
    texts = candidates.rows["text_hash"]
    return texts[first] != texts[second]


def _index_pairs(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """
    Return the positions of both members of every pair within groups of consecutive elements of these sizes.

    For the sizes 3 and 2 the pairs are (0, 1), (0, 2), (1, 2) and (3, 4).
    """
    starts = (np.cumsum(sizes) - sizes).tolist()
    pairs = [np.stack(np.triu_indices(size, 1)) + start for size, start in zip(sizes.tolist(), starts, strict=True)]
    first, second = np.concatenate([np.empty((2, 0), np.int64), *pairs], axis=1)
    return first, second
