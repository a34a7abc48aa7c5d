"""Accuracy with which the writer of a solution can be told from its text alone."""

import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from pvg_hf.core.figure import Figure
from pvg_hf.evaluation.verifier_quality import first_half, roc_auc

LEAST_PER_CLASS = 2  # texts of either writer that a classifier is trained on


def author_separability(rows: pd.DataFrame, is_author: pd.Series, *, seed: int) -> Figure:
    """
    ROC-AUC of a classifier that tells an author's texts from the others by the letters alone.

    Where the correct side of every pair has one author and the incorrect side another (`data.correct_source: dataset`), a
    verifier can order pairs by style. Its pair accuracy is then no evidence of checking, unless this figure is near .5.

    The classifier is a logistic regression on runs of 2 to 4 characters (TF-IDF). It never sees the problem or whether a solution is
    correct. Each half of the problems is scored by a classifier that was trained on the other half.

    Args:
        rows (`pd.DataFrame`):
            Rows with `problem_id` and `solution`.
        is_author (`pd.Series`):
            Whether the author wrote the row's solution; booleans with the index of `rows`.
        seed (`int`):
            Seed of the halves.

    Returns:
        `Figure`: in [0, 1], .5 if the authors cannot be told apart; `n` is the number of solutions. No value if there are too few
        solutions of either kind.
    """
    is_first = first_half(rows["problem_id"], seed=seed)
    scored = []
    for half in (is_first, ~is_first):
        others = is_author[~half]
        if not half.any() or others.value_counts().reindex([True, False], fill_value=0).min() < LEAST_PER_CLASS:
            continue
        classifier = make_pipeline(
            TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True),
            LogisticRegression(class_weight="balanced", max_iter=1000),
        ).fit(rows.loc[~half, "solution"], others)
        mine = rows[half]
        scores = classifier.decision_function(mine["solution"])
        scored.append(mine[["problem_id"]].assign(score=scores, correct=is_author[half]))
    return roc_auc(pd.concat(scored)) if scored else Figure(None, None, None, len(rows))
