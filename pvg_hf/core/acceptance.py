"""Acceptance of solutions: a verifier accepts those that score at least as high as a share of the correct ones."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pvg_hf.core.scored_texts import check_scores

COMPLETENESS = 0.95
"""Share of the correct solutions that a verifier accepts, wherever solutions are called accepted."""

_TINY = 1e-9  # rounding error of a share


@dataclass(frozen=True)
class Acceptance:
    """
    A verifier's rule of acceptance.

    Scores above the threshold are accepted and those below it rejected. Scores equal to it are ties:

    - where verifiers are compared, [`shares`] accepts the same part of each tie, so that exactly the completeness is
      reached on the correct solutions that the rule was made from;
    - where a solution is decided on, [`accepts`] accepts every tie, so that at least the completeness is reached.

    Without ties both are the same, except for a part of the solution at the threshold if the completeness times the
    number of correct solutions is not whole.

    Args:
        threshold (`float`):
            Lowest score that is accepted.
        share_of_ties (`float`, defaults to 1.0):
            Part of each solution at the threshold that [`shares`] accepts, in (0, 1].
    """

    threshold: float
    share_of_ties: float = 1.0

    @classmethod
    def at(cls, correct_scores: ArrayLike, completeness: float = COMPLETENESS) -> "Acceptance":
        """
        Return the rule that accepts a share of the correct solutions, given their scores `(n,)`.

        Raises:
            ValueError: for a share outside (0, 1), without a score, or for one that is not finite.
        """
        check_scores(correct_scores)
        if not 0 < completeness < 1:
            raise ValueError(f"`completeness` must be in (0, 1); got {completeness}.")
        scores = np.sort(np.asarray(correct_scores, float))[::-1]
        if not len(scores):
            raise ValueError("Without a correct solution there is no threshold.")
        wanted = completeness * len(scores)
        threshold = scores[max(int(np.ceil(wanted - _TINY)), 1) - 1]
        above, ties = (scores > threshold).sum(), (scores == threshold).sum()
        return cls(float(threshold), float(min((wanted - above) / ties, 1.0)))

    def shares(self, scores: ArrayLike) -> np.ndarray:
        """Return the part of each solution that is accepted, in [0, 1], in the shape of `scores`."""
        scores = np.asarray(scores, float)
        return np.where(scores == self.threshold, self.share_of_ties, scores > self.threshold)

    def accepts(self, scores: Any) -> Any:
        """Return whether each solution is accepted, for a score or for an array, tensor or series of them."""
        return scores >= self.threshold
