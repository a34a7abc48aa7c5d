"""Convincingness of solutions to a verifier: completeness, soundness, and figures of the ROC curve as plain numbers."""

import numpy as np
from numpy.typing import ArrayLike

from pvg_hf.evaluation.roc import MAX_FPR, RocCurves, area, geometric_mean, partial_area


def summarize_scores(
    scores: ArrayLike, correct: ArrayLike, threshold: float, *, max_fpr: float = MAX_FPR
) -> dict[str, float | None]:
    """
    Summarise a verifier's scores of helpful correct and sneaky incorrect solutions.

    Args:
        scores (`ArrayLike` of shape `(n,)`):
            Verifier scores, unbounded; higher is more convincing.
        correct (`ArrayLike` of shape `(n,)`):
            Booleans: whether each solution is correct.
        threshold (`float`):
            A solution is accepted if its score is strictly above it.
        max_fpr (`float`, defaults to 0.1):
            False positive rate up to which the partial area is taken, in (0, 1].

    Returns:
        `dict[str, float]`: `completeness` (share of the correct solutions accepted), `soundness` (share of the incorrect
        ones rejected), `youden_j` (their sum less 1, in [-1, 1]), `g_mean` (their geometric mean), `auc`, and
        `partial_auc` (mean true positive rate over false positive rates up to `max_fpr`; chance is `max_fpr / 2`). `None`
        if it needs a class that is missing.

    Raises:
        ValueError: if the lengths differ, a score is not finite, or `max_fpr` is outside (0, 1].
    """
    scores, correct = np.asarray(scores, dtype=float), np.asarray(correct, dtype=bool)
    if scores.shape != correct.shape or scores.ndim != 1:
        raise ValueError(f"`scores` has the shape {scores.shape} and `correct` {correct.shape}; both must be (n,).")
    if not np.isfinite(scores).all():
        raise ValueError(f"{(~np.isfinite(scores)).sum()} of {len(scores)} scores are not finite; remove them first.")
    if not 0 < max_fpr <= 1:
        raise ValueError(f"`max_fpr` is {max_fpr}; it must lie in (0, 1].")
    accepted, weights = scores > threshold, np.ones((1, len(scores)))
    completeness = float(accepted[correct].mean()) if correct.any() else None
    soundness = float((~accepted[~correct]).mean()) if (~correct).any() else None
    found: dict[str, float | None] = {"completeness": completeness, "soundness": soundness}
    if completeness is None or soundness is None:
        return found | dict.fromkeys(("youden_j", "g_mean", "auc", "partial_auc"))
    curves = RocCurves(scores, correct)(weights)
    return found | {
        "youden_j": completeness + soundness - 1,
        "g_mean": float(geometric_mean(accepted, correct)(weights)[0]),
        "auc": float(area(curves)[0]),
        "partial_auc": float(partial_area(curves, max_fpr)[0]),
    }
