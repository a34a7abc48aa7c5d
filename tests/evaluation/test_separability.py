"""Accuracy with which a classifier tells two authors apart by their texts."""

import pandas as pd
import pytest

from pvg_hf.evaluation.separability import author_separability


def texts(author_writes: str, others_write: str, num_problems: int = 20) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"problem_id": f"p{index}", "solution": f"{text} {index % 7}", "is_author": is_author}
            for index in range(num_problems)
            for text, is_author in ((author_writes, True), (others_write, False))
        ]
    )


@pytest.mark.parametrize(
    ("others_write", "auc"), [("the sum is", 0.5), ("zebra quick", 1.0)], ids=["the same texts", "other letters"]
)
def test_authors_with_the_same_texts_cannot_be_told_apart(others_write, auc):
    rows = texts("the sum is", others_write)
    figure = author_separability(rows, rows["is_author"], seed=0)
    # Each problem has the same number from both, so that equal texts tie: exactly one half.
    assert figure.value == pytest.approx(auc)
    assert figure.n == 40
    assert figure.low <= auc <= figure.high


def test_too_few_texts_have_no_figure():
    rows = texts("the sum is", "zebra quick", num_problems=2)
    figure = author_separability(rows, rows["is_author"], seed=0)
    assert (figure.value, figure.n) == (None, 4)
