"""Linear systems over F_2: exact labels, controlled balance, witnesses."""

import itertools

import numpy as np
import pytest

from pvg_hf.core.seeding import derive_rng
from pvg_hf.experimental.messages.decisions import load_world
from pvg_hf.experimental.messages.decisions.linear_systems import (
    LinearSystems,
    closest_assignments,
    draw_systems,
    eliminate,
    is_satisfiable,
)


def violated(rows: np.ndarray, assignment: int, num_variables: int) -> int:
    """Number of equations that an assignment violates, bit by bit."""
    count = 0
    for row in rows.tolist():
        left = sum((row >> j & 1) * (assignment >> j & 1) for j in range(num_variables)) % 2
        count += left != row >> num_variables & 1
    return count


def test_labels_of_all_systems_with_two_equations_and_three_variables():
    systems = np.array(list(itertools.product(range(16), repeat=2)), dtype=np.uint64)
    brute = [min(violated(rows, s, 3) for s in range(8)) == 0 for rows in systems]
    assert is_satisfiable(systems, 3).tolist() == brute
    assert closest_assignments(systems, 3).tolist() == [
        min(range(8), key=lambda s: violated(rows, s, 3)) for rows in systems
    ]


def test_ranks_by_hand():
    # Rows 11, 01 and their sum; then three equal rows; then zeros. Bit 0 is the first column.
    rows = np.array([[0b11, 0b10, 0b01], [0b10, 0b10, 0b10], [0, 0, 0]], dtype=np.uint64)
    assert eliminate(rows, 2)[1].tolist() == [2, 1, 0]


@pytest.mark.parametrize("share", [0.5, 0.2])
def test_drawn_systems_have_their_labels(share):
    rows, labels, solutions = draw_systems(derive_rng(0), 400, 6, 4, share)
    assert labels.sum() == 400 * share
    assert is_satisfiable(rows, 4).tolist() == (labels == 1).tolist()
    assert all(violated(row, int(s), 4) == 0 for row, s, label in zip(rows, solutions, labels) if label)


def test_the_matrix_does_not_give_the_label_away():
    rows, labels, _ = draw_systems(derive_rng(1), 20_000, 3, 2, 0.5)
    ranks = eliminate(rows & np.uint64(3), 2)[1]
    shares = [(ranks[labels == label] == 2).mean() for label in (0, 1)]
    assert abs(shares[0] - shares[1]) < 0.03  # four standard errors of a difference are .028


def test_inputs_and_witness():
    problems = LinearSystems(4, 3, num_train=50).problems("train", with_witness=True)
    assert problems.inputs.shape == (50, 15 - 3 + 4)
    assert set(np.unique(problems.inputs)) == {-1.0, 1.0}
    matrix, right, witness = (
        problems.inputs[:, :12].reshape(50, 4, 3) > 0,
        problems.inputs[:, 12:] > 0,
        problems.witness > 0,
    )
    left = (matrix & witness[:, None, :]).sum(axis=2) % 2
    num_violated = (left != right).sum(axis=1)
    assert (num_violated[problems.labels == 1] == 0).all()
    assert (num_violated[problems.labels == 0] > 0).all()


def test_splits_and_seeds_differ_and_repeat():
    draws = [LinearSystems(seed=seed).problems(split).inputs for seed in (0, 1) for split in ("train", "test")]
    assert draws[0].shape == (10_000, 165)
    assert draws[1].shape == (1_000, 165)
    assert (LinearSystems().problems("test").inputs == draws[1]).all()
    assert (draws[1] != draws[3]).any()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"num_equations": 3, "num_variables": 3}, "`num_equations` is 3"),
        ({"num_train": 0}, "`num_train`.*got 0"),
        ({"share_satisfiable": 1.0}, "`share_satisfiable`.*got 1.0"),
        ({"num_equation": 3}, "`num_equation` of world.*num_equations"),
    ],
    ids=["not-overdetermined", "no-problem", "one-class", "unknown-option"],
)
def test_options_out_of_range_are_errors(options, match):
    with pytest.raises(ValueError, match=match):
        load_world("linear_f2", **options)


def test_too_many_variables_to_enumerate():
    with pytest.raises(ValueError, match="`num_variables` is 17"):
        LinearSystems(18, 17, num_test=2).problems("test", with_witness=True)
