"""Verifiers that read a solution without checking it."""

import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from pvg_hf.experimental.judging.text_features import length_features


class Baseline:
    """
    A logistic regression on a solution's length (characters, words, numbers and lines) or on its bag of words.

    It is fitted to solutions with known correctness. It does not see the problem.

    Args:
        name: One of `pvg_hf.experimental.bench.BASELINES`.
        rows: Solutions with `solution` and `correct`.
    """

    def __init__(self, name: str, rows: pd.DataFrame):
        features = {
            "length": [FunctionTransformer(length_features), StandardScaler()],
            "bag-of-words": [TfidfVectorizer(token_pattern=r"\S+", lowercase=False)],
        }[name]
        classifier = LogisticRegression(class_weight="balanced", max_iter=1000)
        self._model = make_pipeline(*features, classifier).fit(rows["solution"].tolist(), rows["correct"])

    def __call__(self, problems: list[str], solutions: list[str]) -> list[float]:
        return self._model.decision_function(solutions).tolist()
