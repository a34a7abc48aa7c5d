"""Linear systems over F_2: is A s = b satisfiable?"""

from typing import ClassVar

import numpy as np

from pvg_hf.core.extensions import show_value
from pvg_hf.core.seeding import derive_rng
from pvg_hf.experimental.messages.decisions.decision_world import DecisionProblems, DecisionWorld, check_count
from pvg_hf.tasks.base import Split, check_split

_MAX_VARIABLES = 62  # a row, with its right-hand side, is one 64-bit integer
_MAX_ENUMERATED = 16  # variables up to which all assignments are tried
_CHUNK = 2**24  # parities that are computed at once


class LinearSystems(DecisionWorld):
    """
    Decides whether A s = b has a solution over F_2.

    A has independent uniform entries, whatever the label. For yes, b = A s for a uniform s, which is the witness. For
    no, b is uniform outside the column space of A. Labels are exact by elimination.

    Args:
        num_equations: Rows of A; more than `num_variables`, so that every A has an unsatisfiable b.
        num_variables: Columns of A, at most 62.
        num_train: Number of training problems.
        num_test: Number of test problems.
        share_satisfiable: Share of problems with answer yes, in (0, 1), exact up to rounding.
        seed: Seed of the problems.
    Raises `ValueError` for a setting outside its range.
    """

    name: ClassVar = "linear_f2"

    def __init__(
        self,
        num_equations: int = 15,
        num_variables: int = 10,
        num_train: int = 10_000,
        num_test: int = 1_000,
        share_satisfiable: float = 0.5,
        seed: int = 0,
    ):
        check_count("num_variables", num_variables, most=_MAX_VARIABLES)
        check_count("num_equations", num_equations, most=1000)
        if num_equations <= num_variables:
            raise ValueError(
                f"`num_equations` is {num_equations} and `num_variables` {num_variables}; there must be more equations"
                " than variables, or some matrices allow no unsatisfiable system and the matrix would give the label"
                " away."
            )
        check_count("num_train", num_train)
        check_count("num_test", num_test)
        if not 0 < share_satisfiable < 1:
            raise ValueError(f"`share_satisfiable` must lie in (0, 1); got {show_value(share_satisfiable)}.")
        self.num_equations = num_equations
        self.num_variables = num_variables
        self.num_problems = {"train": num_train, "test": num_test}
        self.share_satisfiable = share_satisfiable
        self.seed = seed

    @property
    def default_message_width(self) -> int:
        return self.num_variables

    def problems(self, split: Split, *, with_witness: bool = False) -> DecisionProblems:
        """
        Return the systems of a split: `inputs` holds A row by row and then b, as -1 for 0 and 1 for 1.

        With witnesses, an unsatisfiable system has an assignment that violates the fewest equations.
        """
        check_split(split)
        rng = derive_rng(self.seed, self.name, self.num_equations, self.num_variables, split)
        rows, labels, solutions = draw_systems(
            rng, self.num_problems[split], self.num_equations, self.num_variables, self.share_satisfiable
        )
        witness = None
        if with_witness:
            solutions[labels == 0] = closest_assignments(rows[labels == 0], self.num_variables)
            witness = signs(unpack_bits(solutions, self.num_variables))
        return DecisionProblems(labels, system_inputs(rows, self.num_variables), witness=witness)


def draw_systems(
    rng: np.random.Generator, number: int, num_equations: int, num_variables: int, share_satisfiable: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """
    Draw packed systems with exact labels.

    Returns: rows, uint64 of shape `(number, num_equations)`, where bit j is the coefficient of variable j and bit
        `num_variables` the right-hand side; labels of shape `(number,)`; and solutions as packed bits, which are valid
        where the label is 1.
    """
    labels = (rng.permutation(number) < round(share_satisfiable * number)).astype(np.int64)
    matrix = rng.integers(0, 1 << num_variables, (number, num_equations), dtype=np.uint64)
    solutions = rng.integers(0, 1 << num_variables, number, dtype=np.uint64)
    right = bit_parity(matrix & solutions[:, None])
    todo = np.flatnonzero(labels == 0)
    while len(todo):  # at least half of all right-hand sides are outside the column space
        right[todo] = rng.integers(0, 2, (len(todo), num_equations), dtype=np.uint64)
        todo = todo[is_satisfiable(matrix[todo] | right[todo] << np.uint64(num_variables), num_variables)]
    return matrix | right << np.uint64(num_variables), labels, solutions


def is_satisfiable(rows: np.ndarray, num_variables: int) -> np.ndarray:
    """
    Decide satisfiability by Gaussian elimination, for many systems at once.

    Args:
        rows: shape `(num_systems, num_equations)`. Packed systems, see [`draw_systems`].
    Returns: `np.ndarray` of shape `(num_systems,)`, bool.
    """
    reduced, _ = eliminate(rows, num_variables)
    return ~(reduced == np.uint64(1 << num_variables)).any(axis=1)  # no row says 0 = 1


def eliminate(rows: np.ndarray, num_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """
    Bring packed matrices over F_2 to row echelon form by their first `num_columns` bits.

    Args:
        rows: shape `(num_matrices, num_rows)`. Packed rows, uint64; further bits take part in the additions.
        num_columns: Number of columns to eliminate.
    Returns: the reduced rows, and the ranks of shape `(num_matrices,)`.
    """
    rows = rows.astype(np.uint64)  # a copy
    every, rank = np.arange(len(rows)), np.zeros(len(rows), dtype=np.int64)
    if not rows.size:
        return rows, rank
    last = rows.shape[1] - 1
    for column in range(num_columns):
        has_bit = (rows & np.uint64(1 << column)) != 0
        is_candidate = has_bit & (np.arange(last + 1) >= rank[:, None])
        pivot, is_found = is_candidate.argmax(axis=1), is_candidate.any(axis=1)
        target = np.minimum(rank, last)
        pivot = np.where(is_found, pivot, target)  # without a pivot, a row is exchanged with itself
        pivot_rows = rows[every, pivot]
        rows[every, pivot], has_bit[every, pivot] = rows[every, target], has_bit[every, target]
        rows[every, target], has_bit[every, target] = pivot_rows, False
        rows ^= np.where(has_bit & is_found[:, None], pivot_rows[:, None], np.uint64(0))
        rank += is_found
    return rows, rank


def closest_assignments(rows: np.ndarray, num_variables: int) -> np.ndarray:
    """
    Find an assignment that violates the fewest equations of each packed system, by trying all of them.

    Returns: shape `(num_systems,)`; packed bits; of several assignments, the smallest number.
    Raises `ValueError` for more than 16 variables.
    """
    if num_variables > _MAX_ENUMERATED:
        raise ValueError(
            f"Witnesses of unsatisfiable systems are found by trying all assignments, for at most {_MAX_ENUMERATED}"
            f" variables; `num_variables` is {num_variables}."
        )
    # With the bit of the right-hand side set, the parity of (row AND assignment) is 1 where the equation is violated.
    assignments = np.arange(1 << num_variables, dtype=np.uint64) | np.uint64(1 << num_variables)
    found = np.empty(len(rows), dtype=np.uint64)
    chunk = max(1, _CHUNK // max(1, rows.shape[1] * len(assignments)))
    for start in range(0, len(rows), chunk):
        part = rows[start : start + chunk]
        violated = bit_parity(part[:, None, :] & assignments[:, None]).sum(axis=2)  # (chunk, num_assignments)
        found[start : start + chunk] = violated.argmin(axis=1)
    return found


def bit_parity(bits: np.ndarray) -> np.ndarray:
    """Return the parity of the set bits of each integer, as uint64."""
    return (np.bitwise_count(bits) & np.uint8(1)).astype(np.uint64)


def unpack_bits(packed: np.ndarray, width: int) -> np.ndarray:
    """Return the lowest `width` bits of each integer, of shape `(*packed.shape, width)`."""
    return (packed[..., None] >> np.arange(width, dtype=np.uint64)) & np.uint64(1)


def signs(bits: np.ndarray) -> np.ndarray:
    """Return -1 for 0 and 1 for 1, as float32."""
    return bits.astype(np.float32) * 2 - 1


def system_inputs(rows: np.ndarray, num_variables: int) -> np.ndarray:
    """
    Unpack systems to `(num_systems, num_equations * num_variables + num_equations)`: A row by row, then b, as signs.
    """
    bits = signs(unpack_bits(rows, num_variables + 1))  # (num_systems, num_equations, num_variables + 1)
    matrix = bits[..., :num_variables].reshape(len(rows), -1)
    return np.ascontiguousarray(np.hstack([matrix, bits[..., num_variables]]))
