"""
Share of solutions that a verifier accepts, by role, flaw and form; and how well authors can be told apart without any
checking.
"""

from typing import Any

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from pvg_hf.core.figure import Figure
from pvg_hf.core.roles import GAME_ROLES
from pvg_hf.evaluation.intervals import first_half, share_by_problem, with_problems
from pvg_hf.evaluation.role_figures import BY_ANSWER, BY_FLAWS
from pvg_hf.evaluation.verifier_quality import roc_auc
from pvg_hf.evaluation.verifiers_by_pools import accept_at_completeness, accepted_rows


def role_recognition(rows: pd.DataFrame) -> dict[str, Figure]:
    """
    Compute `accepted_role/...`: how a verifier's acceptance depends on the role and on the flaws of a solution.

    A verifier that checks accepts as many solutions of one kind in either role, and fewer the more flaws they have.
    One that recognises the role accepts different shares of the same kind. The threshold is that of the comparison of
    verifiers: a share of `COMPLETENESS` of the helpful correct solutions is accepted. The intervals take it as given.

    `rows` are scored test solutions of earlier rounds' provers in both roles that did not fail. If they have
    `num_flaws`, it gives the kinds. The result is empty without a helpful correct solution.
    """
    accepted = accept_at_completeness(rows)
    if not len(accepted):
        return {}
    kinds = _kinds(accepted)
    return {
        f"accepted_role/{role}/{kind}": share_by_problem(*with_problems(part, "accepted"))
        for role in GAME_ROLES
        for kind in (BY_FLAWS if "num_flaws" in accepted else BY_ANSWER)
        for part in [accepted[(accepted["role"] == role.value) & (kinds == kind)]]
    }


def _kinds(rows: pd.DataFrame) -> pd.Series:
    if "num_flaws" not in rows:
        return rows["correct"].astype(bool).map(dict(zip((True, False), BY_ANSWER)))
    return rows["num_flaws"].clip(upper=len(BY_FLAWS) - 1).map(dict(enumerate(BY_FLAWS)))


FORMS = ("explicit", "partly", "implicit")  # how much of its steps a solution leaves to the reader


def form_of(implicit_share: pd.Series) -> pd.Series:
    """
    Return `explicit` for an implicit share of 0, `partly` below a half, else `implicit`; null where it is unknown.
    """
    choices: Any = (FORMS, None)  # numpy's stub allows neither texts nor None
    forms = np.select([implicit_share == 0, implicit_share < 0.5, implicit_share >= 0.5], *choices)
    return pd.Series(forms, index=implicit_share.index, dtype=object)


def acceptance_figures(rows: pd.DataFrame) -> dict[str, Figure]:
    """
    Compute `accepted_flaw/...` and `accepted_form/...`: which sneaky mistakes and forms of solutions the verifier
    accepts.

    The threshold is that of the comparison of verifiers: a share of `COMPLETENESS` of the helpful correct solutions is
    accepted. The intervals take it as given. `rows` are scored solutions of both roles that did not fail; the result
    is empty for tasks without `first_flaw_kind` and `implicit_share`.
    """
    figures, accepted = {}, accepted_rows(rows)
    is_correct = accepted["correct"].astype(bool)
    sides = {"helpful_correct": accepted[is_correct], "sneaky_incorrect": accepted[~is_correct]}
    if "first_flaw_kind" in rows:
        for kind, group in sides["sneaky_incorrect"].groupby("first_flaw_kind"):
            figures[f"accepted_flaw/{kind}"] = share_by_problem(*with_problems(group, "accepted"))
    if "implicit_share" in rows:
        for side, group in sides.items():
            for form, members in group.groupby(form_of(group["implicit_share"])):
                figures[f"accepted_form/{side}/{form}"] = share_by_problem(*with_problems(members, "accepted"))
    return figures


LEAST_PER_CLASS = 2  # texts of either writer that a classifier is trained on


def author_separability(rows: pd.DataFrame, is_author: pd.Series, *, seed: int) -> Figure:
    """
    ROC-AUC of a classifier that tells an author's texts from the others by the letters alone; .5 if it cannot.

    Where the correct side of every pair has one author and the incorrect side another (`data.correct_source:
    dataset`), a verifier can order pairs by style. Its pair accuracy is then no evidence of checking, unless this
    figure is near .5.

    The classifier is a logistic regression on runs of 2 to 4 characters (TF-IDF). It never sees the problem or whether
    a solution is correct. Each half of the problems is scored by a classifier that was trained on the other half.
    There is no value if there are too few solutions of either kind.
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
