"""ROC curves of a verifier's scores on weighted solutions, and the figures that are read from them."""

from collections.abc import Callable

import numpy as np

from pvg_hf.evaluation.resampling import Statistic, divide

Curves = tuple[np.ndarray, np.ndarray]  # false and true positive rates, each (num_resamples, num_points)

_TINY = 1e-9  # rounding error of a rate


class RocCurves:
    """
    ROC curves of the same scores under several weights of the solutions.

    A curve begins at (0, 0) and ends at (1, 1), with a point below each distinct score. Between two points it is a
    straight line: of solutions with equal scores, any share can be accepted. The area under a curve therefore counts a
    tie as half, as every pair accuracy does.

    Args:
        scores (`np.ndarray` of shape `(n,)`):
            Verifier scores; higher is more convincing.
        correct (`np.ndarray` of shape `(n,)`):
            Booleans: whether each solution is correct.
    """

    def __init__(self, scores: np.ndarray, correct: np.ndarray):
        self._order = np.argsort(-scores, kind="stable")
        self._correct = correct[self._order].astype(bool)
        ordered = scores[self._order]
        self._last = np.append(ordered[1:] != ordered[:-1], True)  # the last of each group of equal scores

    def __call__(self, weights: np.ndarray) -> Curves:
        """
        Return false and true positive rates.

        Args:
            weights (`np.ndarray` of shape `(num_resamples, n)`):
                Weights of the solutions, at least 0.

        Returns:
            `tuple[np.ndarray, np.ndarray]` of shape `(num_resamples, num_distinct_scores + 1)`: NaN if a class has no
            weight.
        """
        weights = weights[:, self._order]
        return self._rates(weights * ~self._correct), self._rates(weights * self._correct)

    def _rates(self, weights: np.ndarray) -> np.ndarray:
        sums = np.cumsum(weights, axis=1)[:, self._last]
        rates = divide(sums, np.broadcast_to(sums[:, -1:], sums.shape))
        return np.concatenate([np.where(np.isnan(rates[:, :1]), np.nan, 0.0), rates], axis=1)


def fpr_at_tpr(curves: Curves, tpr: float) -> np.ndarray:
    """Return the lowest false positive rate at which each curve has a true positive rate of `tpr`."""
    # Reversed, so that of several points with the same rate `np.interp` takes the leftmost.
    return _along(curves, lambda fprs, tprs: np.interp(1 - tpr + _TINY, 1 - tprs[::-1], fprs[::-1]))


def tpr_at_fpr(curves: Curves, fpr: float) -> np.ndarray:
    """Return the highest true positive rate at which each curve has a false positive rate of `fpr`."""
    return _along(curves, lambda fprs, tprs: np.interp(fpr + _TINY, fprs, tprs))


def area(curves: Curves) -> np.ndarray:
    """Return the area under each curve: P(a correct solution outscores an incorrect one); a tie counts half."""
    fprs, tprs = curves
    return np.trapezoid(tprs, fprs, axis=1)


def partial_area(curves: Curves, max_fpr: float) -> np.ndarray:
    """Return the mean true positive rate over false positive rates up to `max_fpr`; chance is `max_fpr / 2`."""

    def mean_height(fprs: np.ndarray, tprs: np.ndarray) -> float:
        inside = fprs <= max_fpr + _TINY
        end = np.interp(max_fpr + _TINY, fprs, tprs)
        return np.trapezoid(np.append(tprs[inside], end), np.append(fprs[inside], max_fpr)) / max_fpr

    return _along(curves, mean_height)


def balanced_best_of(curves: Curves, n: int) -> np.ndarray:
    """
    Return P(the best of n/2 correct and n/2 incorrect solutions is correct) for scores with these ROC curves.

    With T and F the true and false positive rate, and h = n/2, it is `int h (1 - T)^(h-1) (1 - F)^h dT`: of h correct
    solutions one has the score at T, and all others lie below it. It is Dorner et al. 2025 (arXiv 2507.12399) for half
    of the solutions correct. Solutions are drawn independently from all that the curve was measured on, so the
    prediction takes all problems to be alike.

    Args:
        curves (`tuple[np.ndarray, np.ndarray]`):
            ROC curves.
        n (`int`):
            Number of solutions to choose from; even.
    """
    half = n // 2
    fprs, tprs = curves
    # The integrand is a polynomial of degree n - 1 on each line, so that n / 2 nodes integrate it exactly.
    nodes, node_weights = np.polynomial.legendre.leggauss(half)
    widths, total = np.diff(tprs, axis=1), np.zeros(len(tprs))
    for node, weight in zip((nodes + 1) / 2, node_weights / 2):
        below, others = 1 - tprs[:, :-1] - node * widths, 1 - fprs[:, :-1] - node * np.diff(fprs, axis=1)
        total += weight * (widths * half * below ** (half - 1) * others**half).sum(1)
    return total


def roc_statistic(scores: np.ndarray, correct: np.ndarray, read: Callable[[Curves], np.ndarray]) -> Statistic:
    """Return a figure of the ROC curve as a statistic for [`~pvg_hf.evaluation.resampling.bootstrap_statistic`]."""
    curves = RocCurves(scores, correct)
    return lambda weights: read(curves(weights))


def _along(curves: Curves, read: Callable[[np.ndarray, np.ndarray], float]) -> np.ndarray:
    """Apply `read` to every curve; NaN for a curve of NaN."""
    return np.array([np.nan if np.isnan(f[-1]) or np.isnan(t[-1]) else read(f, t) for f, t in zip(*curves)])
