"""Matches chosen solutions to pairs."""

from dataclasses import dataclass, replace

import numpy as np

from pvg_hf.core.disk_names import round_name
from pvg_hf.core.seeding import derive_rng
from pvg_hf.data.pairs.candidates import Candidates
from pvg_hf.data.pairs.select import SIDES


@dataclass(frozen=True)
class Matches:
    """
    Pairs of solutions as indices.

    Args:
        problem (`np.ndarray` of shape `(num_pairs,)`):
            Index of the problem.
        correct (`np.ndarray` of shape `(num_pairs,)`):
            Index of the candidate labelled correct, or -1 for the problem's reference; in a tie, the earlier
            candidate.
        incorrect (`np.ndarray` of shape `(num_pairs,)`):
            Index of the candidate labelled incorrect; in a tie, the later candidate.
        without_pair (`dict[str, int]`):
            Number of problems without a pair, by what is missing.
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
    pair is repeated before all m n pairs have occurred, and all solutions are used equally often (up to one). A pair of
    one text with itself, which two sources wrote and whose noisy labels differ, is left out.

    Args:
        candidates ([`~pvg_hf.data.pairs.candidates.Candidates`]):
            All candidates.
        chosen (`np.ndarray` of shape `(num_chosen,)`):
            Indices of candidates, sorted by problem, then label.
        max_pairs (`int`):
            Maximum number of pairs per problem.
        has_reference (`bool`):
            Whether each problem's reference is an additional correct solution, the first in turn.
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
    return Matches(
        problem=problem[differs],
        correct=correct[differs],
        incorrect=incorrect[differs],
        without_pair={
            "no_solution": int(((num_correct == 0) & (num_incorrect == 0)).sum()),
            "no_correct": int(((num_correct == 0) & (num_incorrect > 0)).sum()),
            "no_incorrect": int(((num_correct > 0) & (num_incorrect == 0)).sum()),
            "one_text": len(np.unique(problem)) - len(np.unique(problem[differs])),
        },
    )


def match_all(candidates: Candidates, chosen: np.ndarray, *, share: float, seed: int, round_index: int) -> Matches:
    """
    Form all unordered pairs of each problem's chosen solutions, or a random share of them.

    The share is drawn regardless of the labels: every pair is kept with the same probability, so that a mean over the
    kept pairs is an unbiased estimate of the mean over all pairs. Pairs of one text with itself, which two sources wrote,
    are left out: they have no gradient.

    Args:
        candidates ([`~pvg_hf.data.pairs.candidates.Candidates`]):
            All candidates.
        chosen (`np.ndarray` of shape `(num_chosen,)`):
            Indices of candidates.
        share (`float`):
            Probability that a pair is kept, in (0, 1].
        seed (`int`), round_index (`int`):
            The recipe's seed and the verifier's round, from which the draws are derived.
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
    num_later = np.concatenate([np.arange(size - 1, -1, -1) for size in sizes]) if len(sizes) else sizes
    first = np.repeat(np.arange(len(num_later)), num_later)
    rank = np.arange(len(first)) - np.repeat(np.cumsum(num_later) - num_later, num_later)
    return first, first + 1 + rank
