"""Which chosen solutions stand in a pair with which."""

from dataclasses import dataclass, replace

import numpy as np

from pvg_hf.data.candidates import Candidates
from pvg_hf.data.choice import SIDES


@dataclass(frozen=True)
class Matches:
    """
    Pairs as indices.

    Args:
        problem (`np.ndarray` of shape `(num_pairs,)`):
            Index of the problem.
        correct (`np.ndarray` of shape `(num_pairs,)`):
            Index of the candidate labelled correct, -1 for the problem's reference.
        incorrect (`np.ndarray` of shape `(num_pairs,)`):
            Index of the candidate labelled incorrect.
        without_pair (`dict[str, int]`):
            Number of problems that lack a side, by the side they lack.
    """

    problem: np.ndarray
    correct: np.ndarray
    incorrect: np.ndarray
    without_pair: dict[str, int]

    def reordered(self, order: np.ndarray) -> "Matches":
        return replace(self, problem=self.problem[order], correct=self.correct[order], incorrect=self.incorrect[order])


def match_solutions(candidates: Candidates, chosen: np.ndarray, max_pairs: int, *, has_reference: bool) -> Matches:
    """
    Match the chosen solutions of each problem, in turn. With m correct and n incorrect ones, turn t takes correct
    t mod m and incorrect (t + t // lcm(m, n)) mod n: no pair comes twice before all m n have, and uses stay even.

    Args:
        candidates ([`~pvg_hf.data.candidates.Candidates`]):
            All that could be chosen.
        chosen (`np.ndarray` of shape `(num_chosen,)`):
            Indices of candidates, sorted by problem, then label.
        max_pairs (`int`):
            Most pairs of a problem.
        has_reference (`bool`):
            Whether each problem's reference is one more correct solution, the first in turn.
    """
    num_problems = len(candidates.problem_ids)
    rows = candidates.rows[chosen]
    side = rows["problem"].astype(np.int64) * len(SIDES) + rows["label"]
    num_found = np.bincount(side, minlength=num_problems * len(SIDES))
    first = (np.cumsum(num_found) - num_found).reshape(-1, len(SIDES))  # where the problem's side starts in `chosen`
    num_incorrect, num_correct = num_found.reshape(-1, len(SIDES)).T
    num_correct = num_correct + has_reference

    num_pairs = np.minimum(max_pairs, num_correct * num_incorrect)
    problem = np.repeat(np.arange(num_problems), num_pairs)
    turn = np.arange(len(problem)) - np.repeat(np.cumsum(num_pairs) - num_pairs, num_pairs)
    lap = turn // np.lcm(num_correct, num_incorrect)[problem]
    correct = turn % num_correct[problem] - has_reference  # the reference comes first, as -1
    incorrect = (turn + lap) % num_incorrect[problem]
    return Matches(
        problem=problem,
        correct=np.where(correct < 0, -1, chosen[first[problem, 1] + correct]),
        incorrect=chosen[first[problem, 0] + incorrect],
        without_pair={
            "no_solution": int(((num_correct == 0) & (num_incorrect == 0)).sum()),
            "no_correct": int(((num_correct == 0) & (num_incorrect > 0)).sum()),
            "no_incorrect": int(((num_correct > 0) & (num_incorrect == 0)).sum()),
        },
    )
