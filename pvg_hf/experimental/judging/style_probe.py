"""
Share of a verifier's scores that style explains: length, form and wording, none of which depend on correctness.

A verifier that separates the provers by style rather than by checking is not robust: an attacker needs only the style.
"""

import numpy as np
import pandas as pd
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pvg_hf.core.figure import EMPTY, Figure
from pvg_hf.core.seeding import derive_seed
from pvg_hf.evaluation.intervals import Statistic, bootstrap_statistic, divide
from pvg_hf.evaluation.verifier_quality import roc_auc
from pvg_hf.experimental.judging.role_separability import problem_folds
from pvg_hf.experimental.judging.text_features import FEATURE_GROUPS, group_features

_ALPHAS = np.logspace(0, 5, 6)  # of ridge regression on standardised features; chosen within the training folds

LEAST_PROBLEMS = 4  # problems below which nothing is fitted


def style_figures(rows: pd.DataFrame, *, seed: int, num_resamples: int, num_folds: int = 5) -> dict[str, Figure]:
    """
    Compute how well style predicts a verifier's scores, and how well style alone would order solutions.

    Ridge regressions on the features of [`~pvg_hf.experimental.judging.text_features.group_features`] predict the
    scores of each fold of problems; they are fitted on the other folds.

    Args:
        rows: Solutions with `problem_id`, `solution`, `score` (finite), `correct` and, if the task marks flaws,
            `num_flaws`.
        seed, num_resamples: Settings of the folds and of the bootstrap over problems.
        num_folds: Number of folds.

    Returns:
        `dict[str, Figure]`: `n` is the number of solutions, and all are without a value for fewer than
        `LEAST_PROBLEMS` problems.

        - `explained/length`, `/form`, `/wording` and `/all`: share of the scores' variance that the group explains
          out of fold (R^2; below 0 if it predicts worse than the mean);
        - `explained/correct`: the share that correctness itself explains;
        - `explained_within/all`: the share that style explains of the scores less the mean of the correct or of the
          incorrect solutions, i.e. beyond correctness;
        - `explained_within/flaws`: the same share of the number of flaws in place of the scores, with `num_flaws`
          only;
        - `auc/score`, `auc/style` and `auc/rest`: P(a correct solution is above an incorrect one) by the scores, by
          what style predicts of them, and by the scores less that. `auc/style` has no value unless `explained/all` is
          clearly above 0, because what is fitted to noise has an arbitrary direction.

        Correct and incorrect solutions may differ in style. The scores of a perfect checker are then explained by
        style, too. `explained_within/all` leaves that out. Among incorrect solutions, those with more flaws may differ
        in style as well: a verifier that counts flaws has about the share `explained_within/flaws`, and only what lies
        above it shows that style itself is read. The regression shrinks, so that `auc/rest` can be above .5 for a
        verifier that reads nothing but style.
    """
    names = [*(f"explained/{name}" for name in (*FEATURE_GROUPS, "all", "correct")), "explained_within/all"]
    names += [*(["explained_within/flaws"] if "num_flaws" in rows else []), "auc/score", "auc/style", "auc/rest"]
    if rows["problem_id"].nunique() < LEAST_PROBLEMS or rows["score"].nunique() < 2:
        return {name: Figure(None, None, None, len(rows)) for name in names}
    rows = rows.reset_index(drop=True)
    scores, correct = rows["score"].to_numpy(float), rows["correct"].to_numpy(bool)
    folds = list(problem_folds(rows["problem_id"], num_folds=num_folds, seed=derive_seed(seed, "folds")))
    features = group_features(rows["solution"].tolist())
    features["all"] = np.hstack(list(features.values()))
    predicted = {name: _predict(columns, scores, folds) for name, columns in features.items()}
    within = scores - _class_means(scores, correct)
    figures = {f"explained/{name}": _explained(scores, values) for name, values in predicted.items()}
    figures["explained/correct"] = _explained(scores, _class_means(scores, correct))
    figures["explained_within/all"] = _explained(within, _predict(features["all"], within, folds))
    if "num_flaws" in rows:
        flaws = rows["num_flaws"].to_numpy(float)
        within = flaws - _class_means(flaws, correct)
        figures["explained_within/flaws"] = _explained(within, _predict(features["all"], within, folds))
    found = {
        name: bootstrap_statistic(
            statistic, rows["problem_id"], seed=derive_seed(seed, "style"), num_resamples=num_resamples
        )
        for name, statistic in figures.items()
    }
    explained = found["explained/all"].low
    return {
        **found,
        "auc/score": _auc(rows, scores),
        "auc/style": _auc(rows, predicted["all"]) if explained is not None and explained > 0 else EMPTY,
        "auc/rest": _auc(rows, scores - predicted["all"]),
    }


def _predict(features: np.ndarray, targets: np.ndarray, folds: list[np.ndarray]) -> np.ndarray:
    """Predict the targets of each fold by a regression on the other folds."""
    predicted = np.empty(len(targets))
    for fold in folds:
        regression = make_pipeline(StandardScaler(), RidgeCV(_ALPHAS)).fit(features[~fold], targets[~fold])
        predicted[fold] = regression.predict(features[fold])
    return predicted


def _class_means(values: np.ndarray, correct: np.ndarray) -> np.ndarray:
    """Mean value of all solutions that are as correct as each one."""
    means = np.empty(len(values))
    for kind in (correct, ~correct):
        means[kind] = values[kind].mean() if kind.any() else 0.0
    return means


def _explained(targets: np.ndarray, predicted: np.ndarray) -> Statistic:
    """
    Share of the variance of `targets` that is explained, as a function of weights `(m, n)`; NaN without variance.
    """
    errors = np.square(targets - predicted)

    def statistic(weights: np.ndarray) -> np.ndarray:
        total = weights.sum(1)
        variance = divide(weights @ np.square(targets), total) - np.square(divide(weights @ targets, total))
        is_spread = variance > 1e-12
        return 1 - divide(divide(weights @ errors, total), np.where(is_spread, variance, 0.0))

    return statistic


def _auc(rows: pd.DataFrame, values: np.ndarray) -> Figure:
    return roc_auc(rows.assign(score=values)) if len(rows) else EMPTY
