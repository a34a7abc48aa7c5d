"""Checks of a verifier's texts and scores."""

import numpy as np
import pandas as pd
import pytest

from pvg_hf.core.scored_texts import check_scores, check_texts


@pytest.mark.parametrize(
    ("problems", "solutions", "message"),
    [
        (["p", None], ["s", "s"], r"`problems\[1\]` is None, a NoneType"),
        (["p", "p", "p"], ["s", "s", 4], r"`solutions\[2\]` is 4, a int"),
        (["p"], [["s"]], r"`solutions\[0\]` is \['s'\], a list"),
        (["p"], [b"s"], r"`solutions\[0\]` is b's', a bytes"),
        (["p"], [float("nan")], r"`solutions\[0\]` is nan, a float"),
        (["p"], ["a\ud800"], r"`solutions\[0\]` has a lone surrogate at 1"),
        (["p"], ["s", "s"], "1 problems and 2 solutions"),
        ("p", ["s"], r"`problems` is 'p'; pass a list of texts, such as \[problem\]"),
        (["p"], None, "`solutions` is None; pass a list"),
        (["p"], 3, "`solutions` is 3; pass a list"),
    ],
)
def test_what_is_no_text_is_named_with_its_index(problems, solutions, message):
    with pytest.raises(ValueError, match=message):
        check_texts(problems, solutions)


@pytest.mark.parametrize("as_given", [list, tuple, np.array, pd.Series], ids=["list", "tuple", "array", "series"])
def test_texts_of_any_script_pass(as_given):
    check_texts(as_given(["", "Wie viele Äpfel?"]), as_given(["解", "🙂"]))


@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf"), None], ids=str)
def test_a_score_that_is_not_finite_is_named_with_its_solution(score):
    with pytest.raises(ValueError, match=r"solution 1 \('#### 2'\) is (nan|inf|-inf); 1 of 3 scores"):
        check_scores([0.5, score, 1.0], ["#### 1", "#### 2", "#### 3"])


def test_finite_scores_pass():
    check_scores([], [])
    check_scores([-1e300, 0.0], pd.Series(["a", "b"], index=[7, 8]))
