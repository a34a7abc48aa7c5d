"""Measures how well a verifier judges: its scores of solutions, and the evaluations that a generative one writes."""

import json
import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from pvg_hf.analyses.form import ALLOWED_SCORES
from pvg_hf.core.acceptance import Acceptance
from pvg_hf.core.figure import EMPTY, Figure, wilson
from pvg_hf.core.score_calibration import ScoreCalibration, quantiles_of
from pvg_hf.core.scored_texts import check_scores
from pvg_hf.core.seeding import derive_seed
from pvg_hf.evaluation.intervals import (
    bootstrap_statistic,
    divide,
    effective_size,
    first_half,
    independent_problems,
    rate_by_problem,
    rate_difference,
    rate_of_counts,
    sums_by_problem,
)
from pvg_hf.evaluation.selective import fit_calibration

NUM_CALIBRATION_BINS = 10

UNREADABLE = "none"  # in keys, stands for a score that cannot be read


def best_separation(scores: ArrayLike, correct: ArrayLike) -> float:
    """
    Return the score that separates correct from incorrect solutions best, with the highest Youden J = TPR - FPR.

    Scores and correctness (free of label noise) have the shape `(n,)`. It is the midpoint between two adjacent scores;
    the lowest of several that are equally good.

    Raises:
        ValueError: if all solutions are correct, all are incorrect, or all scores are equal.
    """
    scores, correct = np.asarray(scores, dtype=float), np.asarray(correct, dtype=bool)
    values, codes = np.unique(scores, return_inverse=True)
    if correct.all() or not correct.any() or len(values) < 2:
        raise ValueError(
            f"A calibration needs correct and incorrect solutions with different scores; got {correct.sum()} correct, "
            f"{(~correct).sum()} incorrect and {len(values)} distinct score(s)."
        )
    # Just above values[i], every score up to values[i] is rejected.
    rejected_correct = np.cumsum(np.bincount(codes, correct)) / correct.sum()
    rejected_incorrect = np.cumsum(np.bincount(codes, ~correct)) / (~correct).sum()
    best = int(np.argmax((rejected_incorrect - rejected_correct)[:-1].round(12)))
    lower, upper = values[best], values[best + 1]
    middle = lower + (upper - lower) / 2
    return float(middle if middle < upper else lower)  # there is no number between adjacent floats


def judge_crossfitted(rows: pd.DataFrame, *, seed: int) -> pd.Series:
    """
    Whether each solution is judged correct, at a score that was chosen without its problem.

    The best separation of some solutions overestimates the verifier on them. The problems are therefore divided into
    two halves, and each half is judged by what [`best_separation`] finds on the other one. `rows` have `problem_id`,
    `score` (finite) and `correct`; the result holds nullable booleans, null if the other half has no separation.
    """
    is_first = first_half(rows["problem_id"], seed=seed)
    judged = pd.Series(pd.NA, index=rows.index, dtype="boolean")
    for half in (is_first, ~is_first):
        others = rows[~half]
        if others["correct"].nunique() == 2 and others["score"].nunique() > 1:
            judged = judged.mask(half, rows["score"] > best_separation(others["score"], others["correct"]))
    return judged


def pair_wins(correct_scores: np.ndarray, incorrect_scores: np.ndarray) -> np.ndarray:
    """Return 1 for each (correct, incorrect) pair in which the correct solution scores higher, and 0.5 for a tie."""
    return (correct_scores > incorrect_scores) + (correct_scores == incorrect_scores) / 2


def pair_accuracy(rows: pd.DataFrame) -> Figure:
    """
    Share of (correct, incorrect) pairs of the same problem in which the correct solution scores higher; ties count
    half.

    `rows` have `problem_id`, `score` and `correct`; every pair of each problem counts once, and `n` is the number of
    pairs.
    """
    counts = [_count_pairs(group) for _, group in rows.groupby("problem_id", sort=False)]
    wins, pairs = np.array(counts, dtype=float).reshape(-1, 2).T
    return rate_of_counts(wins, pairs)


def roc_auc(rows: pd.DataFrame) -> Figure:
    """
    P(a correct solution scores higher than an incorrect one, of any problems); ties count half.

    The interval is Wilson's for the [`~pvg_hf.evaluation.intervals.effective_size`], with the variance over problems
    (Obuchowski 1997). A solution contributes the share of the other class that it outscores. `rows` have `problem_id`,
    `score` and `correct`; `n` is their number, and there is no value if a class is missing.
    """
    scores, correct = rows["score"].to_numpy(float), rows["correct"].to_numpy(bool)
    problem_ids, num_correct = rows["problem_id"].to_numpy(), correct.sum()
    num_incorrect = len(correct) - num_correct
    if not num_correct or not num_incorrect:
        return Figure(None, None, None, len(rows))
    ahead = np.empty(len(scores))  # share of the other class on the right side of each solution
    for is_class, size in ((correct, num_incorrect), (~correct, num_correct)):
        ahead[is_class] = (rankdata(scores)[is_class] - rankdata(scores[is_class])) / size
    ahead[~correct] = 1 - ahead[~correct]
    auc = ahead[correct].mean()
    excess, _ = sums_by_problem((ahead - auc) / np.where(correct, num_correct, num_incorrect), problem_ids)
    least = min(
        independent_problems(sums_by_problem(np.ones(is_class.sum()), problem_ids[is_class])[1])
        for is_class in (correct, ~correct)
    )
    return wilson(auc, effective_size(auc, excess, least=least, most=math.inf), len(rows))


def quality_figures(
    rows: pd.DataFrame, *, compared: pd.DataFrame | None = None, seed: int, num_resamples: int
) -> dict[str, Figure]:
    """
    Compute the figures of the catalogue that begin with `verifier_`, without this prefix.

    `rows` have `problem_id`, `score` (finite), `correct` and `judged_correct` (see [`judge_crossfitted`]; figures that
    use it ignore rows where it is null). `compared` are correct solutions, with the same columns, to compare with the
    incorrect ones of `rows` in `pair_accuracy`, `auc` and `youden_j`; those of `rows` by default.
    """
    correct = rows["correct"].astype(bool)
    right, wrong = rows[correct], rows[~correct]
    known = rows[rows["judged_correct"].notna()]
    compared = right if compared is None else compared
    both = pd.concat([compared, wrong], ignore_index=True)
    return {
        "pair_accuracy": pair_accuracy(both),
        "auc": roc_auc(both) if len(both) else EMPTY,
        "accuracy": rate_by_problem(known["judged_correct"] == known["correct"].astype(bool), known["problem_id"]),
        "tpr": rate_by_problem(*_judgements(right)),
        "fpr": rate_by_problem(*_judgements(wrong)),
        "youden_j": rate_difference(*_judgements(compared), *_judgements(wrong)),
        "calibration_error": bootstrap_statistic(
            calibration_error(rows["score"].to_numpy(float), correct.to_numpy()),
            rows["problem_id"].to_numpy(),
            seed=derive_seed(seed, "calibration_error"),
            num_resamples=num_resamples,
        ),
    }


def calibration_error(scores: np.ndarray, correct: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """
    Expected calibration error of sigmoid(score) in ten bins of equal width, as a function of weights `(m, n)`.

    It is biased upwards if bins contain few solutions, and more so in resamples than in the data.
    """
    probabilities = np.exp(-np.logaddexp(0, -scores))
    bins = np.minimum((probabilities * NUM_CALIBRATION_BINS).astype(int), NUM_CALIBRATION_BINS - 1)
    excess = (correct - probabilities)[:, None] * (bins[:, None] == np.arange(NUM_CALIBRATION_BINS))  # (n, bins)

    def statistic(weights: np.ndarray) -> np.ndarray:
        return divide(np.abs(weights @ excess).sum(1), weights.sum(1))

    return statistic


def _judgements(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return whether each row is judged correct, and its problem, for rows where this is known."""
    known = rows[rows["judged_correct"].notna()]
    return known["judged_correct"].to_numpy(float), known["problem_id"].to_numpy()


def _count_pairs(group: pd.DataFrame) -> tuple[float, int]:
    """Return the number of pairs won and of all pairs of one problem."""
    scores, correct = group["score"].to_numpy(float), group["correct"].to_numpy(bool)
    wins = pair_wins(scores[correct][:, None], scores[~correct])
    return wins.sum(), wins.size


def evaluation_figures(rows: pd.DataFrame) -> dict[str, Figure]:
    """
    Compute the figures of the catalogue that begin with `evaluations/`; `none` stands for unreadable scores.

    `rows` has one row per evaluation: `problem_id`, `reference` (the true score), `predicted` (NaN if unreadable),
    `has_form`, and `issues` (JSON: the issues that it names, each with whether the proof has it; empty if the task
    cannot tell).
    """
    figures = {
        "evaluations/format_rate": _rate(rows, rows["has_form"]),
        "evaluations/accuracy": _rate(rows, rows["predicted"] == rows["reference"]),
    }
    for true in ALLOWED_SCORES:
        of_true = rows[rows["reference"] == true]
        for name in confusion_columns():
            is_cell = of_true["predicted"].isna() if name == UNREADABLE else of_true["predicted"] == float(name)
            figures[f"evaluations/confusion/{true:g}_as_{name}"] = _rate(of_true, is_cell)
    figures["evaluations/false_positive_rate"] = figures["evaluations/confusion/0_as_1"]
    judged_issues = [
        (problem_id, not is_real)
        for problem_id, issues in zip(rows["problem_id"], rows["issues"], strict=True)
        for _, is_real in json.loads(issues)
    ]
    figures["evaluations/hallucinated"] = rate_by_problem(
        [wrong for _, wrong in judged_issues], [where for where, _ in judged_issues]
    )
    return figures


def label_figures(labels: pd.DataFrame) -> dict[str, Figure]:
    """
    Compute `labels/...` of proofs by `problem_id`, `reference` (the true score) and `label` (NaN where undecided).
    """
    is_labelled = labels["label"].notna()
    decided = labels[is_labelled]
    return {
        "labels/coverage": _rate(labels, is_labelled),
        "labels/precision": _rate(decided, decided["label"] == decided["reference"]),
    }


def confusion_columns() -> list[str]:
    """Return the possible predictions, as they are named in the keys."""
    return [*(f"{score:g}" for score in ALLOWED_SCORES), UNREADABLE]


def _rate(rows: pd.DataFrame, hits: pd.Series) -> Figure:
    return rate_by_problem(hits.to_numpy(), rows["problem_id"].to_numpy())


def calibrate(rows: pd.DataFrame, labels: np.ndarray, *, pair_accuracy: Figure | None = None) -> ScoreCalibration:
    """
    Fit thresholds and probabilities to scored solutions.

    Args:
        rows: Solutions with `problem_id`, `solution` and `score`.
        labels: shape `(n,)`. Booleans: whether each is correct.
    Raises `ValueError` if all solutions are correct, all are incorrect, all scores are equal, or one is not finite.
    """
    check_scores(rows["score"], rows["solution"])
    scores, is_correct = rows["score"].to_numpy(float), np.asarray(labels, bool)
    best_separation(scores, is_correct)  # refuses scores that separate nothing
    line = fit_calibration(scores, is_correct.tolist())
    return ScoreCalibration(
        probability={"slope": line.slope, "intercept": line.intercept},
        correct_scores=quantiles_of(scores[is_correct]),
        incorrect_scores=quantiles_of(scores[~is_correct]),
        num_solutions=len(rows),
        num_problems=rows["problem_id"].nunique(),
        pair_accuracy=pair_accuracy,
    )


def threshold_table(rows: pd.DataFrame, completenesses: Sequence[float], *, seed: int = 0) -> pd.DataFrame:
    """
    Tabulate what accepting a share of the correct solutions costs in incorrect ones that are accepted.

    Each half of the problems is judged at the threshold of the other, so that the shares are those of new problems.
    Ties are accepted, as in decisions on single solutions.

    Args:
        rows: Solutions with `problem_id`, `score` and `correct`.
    Returns: `wanted`, the `threshold` on all rows, and the shares `correct_accepted` and `incorrect_accepted`, as
        texts with 95 % intervals by problems.
    """
    is_first = first_half(rows["problem_id"], seed=seed)
    scores, is_correct = rows["score"].to_numpy(float), rows["correct"].to_numpy(bool)
    table = []
    for wanted in completenesses:
        accepted = np.zeros(len(rows), bool)
        for half, other in ((is_first, ~is_first), (~is_first, is_first)):
            of_other = scores[other & is_correct]
            if len(of_other):
                accepted[half] = Acceptance.at(of_other, wanted).accepts(scores[half])
        shares = [
            rate_by_problem(accepted[kind], rows["problem_id"].to_numpy()[kind]) for kind in (is_correct, ~is_correct)
        ]
        table.append(
            {
                "wanted": wanted,
                "threshold": round(Acceptance.at(scores[is_correct], wanted).threshold, 4),
                "correct_accepted": f"{shares[0]}",
                "incorrect_accepted": f"{shares[1]}",
            }
        )
    return pd.DataFrame(table)
