"""How well a verifier's scores tell correct solutions from incorrect ones."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pvg_hf.evaluation.intervals import Figure, bootstrap_statistic, rate_by_problem, ratio_by_problem
from pvg_hf.seeding import derive_seed

NUM_CALIBRATION_BINS = 10

WeightedStatistic = Callable[[np.ndarray], np.ndarray]


def choose_threshold(scores: ArrayLike, correct: ArrayLike) -> float:
    """
    The acceptance threshold with the highest Youden J = TPR - FPR; meant for held-out data.

    Args:
        scores (`ArrayLike` of shape `(n,)`):
            Verifier scores. A solution is accepted when its score is strictly above the threshold.
        correct (`ArrayLike` of shape `(n,)`):
            Clean correctness.

    Returns:
        `float`: midway between two neighbouring scores; the lowest of several that are equally good.

    Raises:
        ValueError: if a class is missing or all scores are equal, so that no threshold can tell anything.
    """
    scores, correct = np.asarray(scores, dtype=float), np.asarray(correct, dtype=bool)
    values, codes = np.unique(scores, return_inverse=True)
    if correct.all() or not correct.any() or len(values) < 2:
        raise ValueError(
            f"A threshold needs correct and incorrect solutions with different scores; got {correct.sum()} correct, "
            f"{(~correct).sum()} incorrect and {len(values)} distinct score(s)."
        )
    # Rejected at the threshold above values[i]: everything up to values[i].
    rejected_correct = np.cumsum(np.bincount(codes, correct)) / correct.sum()
    rejected_incorrect = np.cumsum(np.bincount(codes, ~correct)) / (~correct).sum()
    best = int(np.argmax((rejected_incorrect - rejected_correct)[:-1].round(12)))
    lower, upper = values[best], values[best + 1]
    middle = lower + (upper - lower) / 2
    return float(middle if middle < upper else lower)  # neighbouring floats have nothing between them


def pair_accuracy(rows: pd.DataFrame, *, seed: int, num_resamples: int) -> Figure:
    """
    Share of (correct, incorrect) pairs of one problem in which the correct solution scores higher; ties count half.

    Args:
        rows (`pd.DataFrame`):
            With `problem_id`, `score` and `correct`; every pair of each problem counts once.
        seed (`int`), num_resamples (`int`):
            Of the bootstrap over problems.

    Returns:
        `Figure`: `n` is the number of pairs.
    """
    counts = [_count_pairs(group) for _, group in rows.groupby("problem_id", sort=False)]
    wins, pairs = np.array(counts, dtype=float).reshape(-1, 2).T
    return ratio_by_problem(wins, pairs, seed=seed, num_resamples=num_resamples)


def quality_figures(rows: pd.DataFrame, threshold: float, *, seed: int, num_resamples: int) -> dict[str, Figure]:
    """
    A verifier's figures on scored solutions.

    Args:
        rows (`pd.DataFrame`):
            With `problem_id`, `score` (finite) and `correct`.
        threshold (`float`):
            A solution is accepted when its score is strictly above it.
        seed (`int`), num_resamples (`int`):
            Of the bootstrap over problems.

    Returns:
        `dict[str, Figure]`: `pair_accuracy`, `auc`, `accuracy`, `tpr`, `fpr`, `youden_j` and `calibration_error`.
    """
    scores, correct = rows["score"].to_numpy(float), rows["correct"].to_numpy(bool)
    problem_ids, accepted = rows["problem_id"].to_numpy(), scores > threshold
    statistics: dict[str, WeightedStatistic] = {
        "auc": roc_auc(scores, correct),
        "youden_j": youden_j(accepted, correct),
        "calibration_error": calibration_error(scores, correct),
    }
    return {
        "pair_accuracy": pair_accuracy(rows, seed=derive_seed(seed, "pair_accuracy"), num_resamples=num_resamples),
        "accuracy": rate_by_problem(accepted == correct, problem_ids),
        "tpr": rate_by_problem(accepted[correct], problem_ids[correct]),
        "fpr": rate_by_problem(accepted[~correct], problem_ids[~correct]),
        **{
            name: bootstrap_statistic(
                statistic, problem_ids, seed=derive_seed(seed, name), num_resamples=num_resamples
            )
            for name, statistic in statistics.items()
        },
    }


def roc_auc(scores: np.ndarray, correct: np.ndarray) -> WeightedStatistic:
    """P(a correct solution outscores an incorrect one, of any problem), ties counted half, over weights `(m, n)`."""
    order = np.argsort(scores, kind="stable")
    starts = np.flatnonzero(np.diff(scores[order], prepend=-np.inf) > 0)
    is_correct = correct[order]

    def statistic(weights: np.ndarray) -> np.ndarray:
        ordered = weights[:, order]
        # (m, num_distinct_scores): weight of each class at each score
        right = np.add.reduceat(ordered * is_correct, starts, axis=1)
        wrong = np.add.reduceat(ordered * ~is_correct, starts, axis=1)
        below = np.cumsum(wrong, axis=1) - wrong
        return _divide((right * (below + wrong / 2)).sum(1), right.sum(1) * wrong.sum(1))

    return statistic


def youden_j(accepted: np.ndarray, correct: np.ndarray) -> WeightedStatistic:
    """TPR - FPR, in [-1, 1], over weights `(m, n)`."""

    def statistic(weights: np.ndarray) -> np.ndarray:
        tpr = _divide(weights @ (accepted & correct), weights @ correct)
        return tpr - _divide(weights @ (accepted & ~correct), weights @ ~correct)

    return statistic


def calibration_error(scores: np.ndarray, correct: np.ndarray) -> WeightedStatistic:
    """
    Expected calibration error of sigmoid(score) in ten bins of equal width, over weights `(m, n)`.

    It is biased upwards where bins hold few solutions, in resamples more than in the data.
    """
    probabilities = np.exp(-np.logaddexp(0, -scores))
    bins = np.minimum((probabilities * NUM_CALIBRATION_BINS).astype(int), NUM_CALIBRATION_BINS - 1)
    excess = (correct - probabilities)[:, None] * (bins[:, None] == np.arange(NUM_CALIBRATION_BINS))  # (n, bins)

    def statistic(weights: np.ndarray) -> np.ndarray:
        return _divide(np.abs(weights @ excess).sum(1), weights.sum(1))

    return statistic


def _count_pairs(group: pd.DataFrame) -> tuple[float, int]:
    """Pairs won (a tie is half a win) and pairs of one problem."""
    scores, correct = group["score"].to_numpy(float), group["correct"].to_numpy(bool)
    right, wrong = scores[correct], np.sort(scores[~correct])
    below, up_to = (np.searchsorted(wrong, right, side=side).sum() for side in ("left", "right"))
    return (below + up_to) / 2, len(right) * len(wrong)


def _divide(tops: np.ndarray, bottoms: np.ndarray) -> np.ndarray:
    """NaN where there is nothing to divide by."""
    return np.divide(tops, bottoms, out=np.full(np.shape(bottoms), np.nan), where=np.asarray(bottoms) > 0)
