"""Balanced best-of-n: does a verifier still choose correctly among many solutions (Kirchner et al. 2024, fig. 6b)?"""

from typing import Literal

import numpy as np
import pandas as pd
from scipy.special import gammaln

from pvg_hf.core.figure import Figure
from pvg_hf.evaluation.intervals import bootstrap_statistic, share_by_problem
from pvg_hf.evaluation.roc import balanced_best_of, roc_statistic


def balanced_best_of_n(rows: pd.DataFrame, n: int) -> Figure:
    """
    Share of correct choices if the highest score is chosen among n/2 correct and n/2 incorrect solutions.

    Chance is 0.5 (Kirchner et al. 2024, fig. 6b). The expectation over all draws is computed exactly.

    Args:
        rows (`pd.DataFrame`):
            Solutions with `problem_id`, `score` and `correct`. A problem is eligible if it has n/2 of both kinds.
        n (`int`):
            Number of solutions to choose from.

    Returns:
        `Figure`: `n` is the number of eligible problems.

    Raises:
        ValueError: if `n` is odd or below 2.
    """
    if n < 2 or n % 2:
        raise ValueError(
            f"Balanced best-of-n takes half of n from each kind, so n must be even and at least 2; got {n}."
        )
    shares = {}
    for problem_id, group in rows.groupby("problem_id", sort=False):
        scores, correct = group["score"].to_numpy(float), group["correct"].to_numpy(bool)
        if min(correct.sum(), (~correct).sum()) >= n // 2:
            shares[problem_id] = share_of_correct_choices(scores[correct], scores[~correct], n // 2)
    return share_by_problem(list(shares.values()), list(shares))


def predicted_best_of_n(rows: pd.DataFrame, n: int, *, seed: int, num_resamples: int) -> Figure:
    """
    Predict [`balanced_best_of_n`] from the ROC curve of all solutions (see
    [`~pvg_hf.evaluation.roc.balanced_best_of`]).

    The prediction needs no eligible problem; the figure's `n` is the number of solutions. It differs from the measured
    share as far as problems differ: a verifier whose scores depend on the problem orders the solutions of one problem
    better than those of several.
    """
    statistic = roc_statistic(
        rows["score"].to_numpy(float), rows["correct"].to_numpy(bool), lambda curves: balanced_best_of(curves, n)
    )
    return bootstrap_statistic(statistic, rows["problem_id"].to_numpy(), seed=seed, num_resamples=num_resamples)


def share_of_correct_choices(correct_scores: np.ndarray, incorrect_scores: np.ndarray, half: int) -> float:
    """
    P(the highest-scoring of `half` correct and `half` incorrect solutions is correct), over all draws without
    replacement.

    Solutions that tie for the highest score are equally likely to be chosen. Let M+ and M- be the highest scores among
    the drawn correct and incorrect solutions, `A_v(a) = P(M+ = v, drawn a times)`, and `B_v(b)` the same for M-. The
    result is `sum_v [P(M+ = v) P(M- < v) + sum_{a, b >= 1} A_v(a) B_v(b) a / (a + b)]`. There must be at least `half`
    scores of each kind, and `half` at least 1.
    """
    right, wrong = _Drawn(correct_scores, half), _Drawn(incorrect_scores, half)
    values = np.unique(correct_scores)
    # P(M+ = v) P(M- < v), for all values at once.
    share = (right.highest_is(values) * wrong.all_below(values)).sum()
    for value in np.intersect1d(values, incorrect_scores):
        top_correct, top_incorrect = right.copies(value), wrong.copies(value)
        a, b = np.arange(1, len(top_correct) + 1)[:, None], np.arange(1, len(top_incorrect) + 1)
        share += (top_correct[:, None] * top_incorrect * a / (a + b)).sum()
    return round(float(share), 10)  # the precision of the logarithms of large binomial coefficients


class _Drawn:
    """Distribution of the highest of `num_drawn` scores that are drawn without replacement from `scores`."""

    def __init__(self, scores: np.ndarray, num_drawn: int):
        self.scores = np.sort(scores)
        self.num_drawn = num_drawn
        self._log_total = _log_choose(len(scores), num_drawn)

    def all_below(self, values: np.ndarray, side: Literal["left", "right"] = "left") -> np.ndarray:
        """P(all drawn scores are below each value); with `side="right"`, at most the value."""
        num_below = np.searchsorted(self.scores, values, side=side)
        return np.exp(_log_choose(num_below, self.num_drawn) - self._log_total)

    def highest_is(self, values: np.ndarray) -> np.ndarray:
        """P(the highest drawn score is each value)."""
        return self.all_below(values, side="right") - self.all_below(values)

    def copies(self, value: float) -> np.ndarray:
        """P(a copies of `value` and nothing higher are drawn), for a = 1, 2, ... (multivariate hypergeometric)."""
        below, upto = (int(np.searchsorted(self.scores, value, side=side)) for side in ("left", "right"))
        copies = np.arange(1, min(upto - below, self.num_drawn) + 1)
        logs = _log_choose(upto - below, copies) + _log_choose(below, self.num_drawn - copies)
        return np.exp(logs - self._log_total)


def _log_choose(total: np.ndarray | int, chosen: np.ndarray | int) -> np.ndarray:
    """Logarithm of the binomial coefficient; -inf if more are chosen than exist."""
    total, chosen = np.broadcast_arrays(total, chosen)
    possible = chosen <= total
    inside = np.where(possible, chosen, 0)
    return np.where(possible, gammaln(total + 1) - gammaln(inside + 1) - gammaln(total - inside + 1), -np.inf)
