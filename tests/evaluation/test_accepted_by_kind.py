"""Whether a verifier checks solutions, or recognises the role."""

import pandas as pd
import pytest

from pvg_hf.evaluation.accepted_by_kind import author_separability, role_recognition


def solutions(score, **columns):
    """Forty problems, each with a solution of 0 to 3 flaws in each role; only those without flaws are correct."""
    rows = [
        {
            "problem_id": f"p{problem}",
            "role": role,
            "num_flaws": num_flaws,
            "correct": num_flaws == 0,
            "score": score(role, num_flaws),
        }
        for problem in range(40)
        for role in ("helpful", "sneaky")
        for num_flaws in range(4)
    ]
    return pd.DataFrame(rows).assign(**columns)


@pytest.mark.parametrize(
    ("score", "helpful", "sneaky"),
    [
        (lambda role, num_flaws: -num_flaws, (0.95, 0, 0), (0.95, 0, 0)),
        (lambda role, num_flaws: role == "helpful", (0.95, 0.95, 0.95), (0, 0, 0)),
        (lambda role, num_flaws: -(num_flaws > 1), (0.95, 0.95, 0), (0.95, 0.95, 0)),
        (lambda role, num_flaws: 0, (0.95, 0.95, 0.95), (0.95, 0.95, 0.95)),
    ],
    ids=["checks", "recognises the role", "sees two flaws", "accepts everything alike"],
)
def test_acceptance_by_role_and_flaws(score, helpful, sneaky):
    figures = role_recognition(solutions(score))
    for role, expected in (("helpful", helpful), ("sneaky", sneaky)):
        found = [figures[f"accepted_role/{role}/{kind}"] for kind in ("flawless", "one_flaw", "more_flaws")]
        assert [figure.value for figure in found] == pytest.approx(expected)  # equal scores are accepted in part
        assert [figure.n for figure in found] == [40, 40, 80]


def test_without_marked_flaws_solutions_are_correct_or_incorrect():
    rows = solutions(lambda role, num_flaws: -num_flaws + 0.1 * (role == "sneaky")).drop(columns="num_flaws")
    figures = role_recognition(rows)
    assert {name: figure.n for name, figure in figures.items()} == {
        "accepted_role/helpful/correct": 40,
        "accepted_role/helpful/incorrect": 120,
        "accepted_role/sneaky/correct": 40,
        "accepted_role/sneaky/incorrect": 120,
    }
    assert figures["accepted_role/sneaky/correct"].value == 1


def test_a_kind_that_nobody_wrote_has_no_share():
    rows = solutions(lambda role, num_flaws: -num_flaws)
    rows = rows[(rows["role"] == "helpful") | (rows["num_flaws"] > 0)]
    figure = role_recognition(rows)["accepted_role/sneaky/flawless"]
    assert (figure.value, figure.n) == (None, 0)


def test_without_a_helpful_correct_solution_there_is_no_threshold():
    rows = solutions(lambda role, num_flaws: -num_flaws, correct=False)
    assert role_recognition(rows) == {}


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
