"""Separability of helpful and sneaky solutions by their texts."""

import numpy as np
import pandas as pd
import pytest

from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.core.seeding import derive_rng
from pvg_hf.experimental.judging.role_separability import (
    TransformerDiscriminator,
    hashed_ngrams,
    problem_folds,
    role_separability,
)
from pvg_hf.models.sources import resolve_model

MARK = "Note that the remark comes first.\n"


@pytest.fixture(scope="module")
def solutions(draw_rows) -> pd.DataFrame:
    """960 texts of one writer; their roles are drawn at random, as many of each within every problem."""
    rng = derive_rng(0, "roles")
    rows = pd.concat([draw_rows("test", role, -1, 0, np.random.default_rng(1)) for role in GAME_ROLES])
    rows = rows.sample(frac=1, random_state=0).reset_index(drop=True)
    order = rng.permutation(len(rows))
    rows["role"] = np.array([role.value for role in GAME_ROLES])[order % 2]
    return rows


@pytest.fixture(scope="module")
def tiny() -> TransformerDiscriminator:
    source = resolve_model("arithmetic-small", "verifier")
    return TransformerDiscriminator(source, num_epochs=1)


def null_bound(rows: pd.DataFrame) -> float:
    """Four standard errors of the AUC of random scores: sqrt((m + n + 1) / (12 m n))."""
    m = (rows["role"] == Role.HELPFUL.value).sum()
    n = len(rows) - m
    return 4 * np.sqrt((m + n + 1) / (12 * m * n))


def marked(rows: pd.DataFrame) -> pd.DataFrame:
    """The same texts, of which those in the helpful role begin with a remark."""
    is_helpful = rows["role"] == Role.HELPFUL.value
    return rows.assign(solution=rows["solution"].where(~is_helpful, MARK + rows["solution"]))


def test_ngrams_cannot_tell_shuffled_roles_apart(solutions):
    figure = role_separability(solutions, hashed_ngrams, seed=0)
    assert abs(figure.value - 0.5) < null_bound(solutions)
    assert figure.n == len(solutions)


def test_ngrams_tell_marked_roles_apart(solutions):
    figure = role_separability(marked(solutions), hashed_ngrams, seed=0)
    assert figure.value == pytest.approx(1.0)
    assert figure.high == pytest.approx(1.0)


def test_transformer_cannot_tell_shuffled_roles_apart(solutions, tiny):
    figure = role_separability(solutions, tiny, seed=0, num_folds=2)
    assert abs(figure.value - 0.5) < null_bound(solutions)


def test_transformer_tells_marked_roles_apart(solutions, tiny):
    # A word of the marked texts is unknown to its tokenizer, which has a token for unknown words; one epoch suffices.
    figure = role_separability(marked(solutions), tiny, seed=0, num_folds=2)
    assert figure.value > 0.99


def test_discriminators_see_neither_the_problem_nor_the_other_fold(solutions):
    seen = []

    def record(texts, is_helpful, others):
        seen.append((set(texts), set(others), len(texts), len(is_helpful)))
        return np.zeros(len(others))

    rows = solutions.assign(solution=solutions["problem_id"] + solutions["solution"])
    figure = role_separability(rows, record, seed=0, num_folds=3)
    assert figure.value == 0.5  # all scores tie
    assert len(seen) == 3
    assert all(not texts & others and size == labels for texts, others, size, labels in seen)


def test_too_few_solutions_have_no_figure(solutions):
    figure = role_separability(solutions.iloc[:2], hashed_ngrams, seed=0)
    assert (figure.value, figure.n) == (None, 2)


def test_folds_share_no_problem_and_hold_every_row_once():
    ids = pd.Series([f"p{index % 7}" for index in range(50)])
    folds = list(problem_folds(ids, num_folds=3, seed=5))
    assert np.sum(folds, axis=0).tolist() == [1] * 50
    problems = [set(ids[fold]) for fold in folds]
    assert sorted(map(len, problems)) == [2, 2, 3]
    assert not problems[0] & problems[1] | problems[0] & problems[2] | problems[1] & problems[2]


def test_one_fold_is_refused():
    with pytest.raises(ValueError, match="`num_folds` is 1"):
        list(problem_folds(pd.Series(["a", "b"]), num_folds=1, seed=0))
