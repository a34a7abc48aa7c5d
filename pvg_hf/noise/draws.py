"""The one uniform draw that decides whether the label of a solution flips."""

from pvg_hf.seeding import derive_seed, derive_uniform


def solution_key(problem_id: str, solution: str) -> int:
    """
    What a solution is known by where its label is drawn: equal texts of a problem have one key.

    Returns:
        `int`: in [0, 2**63).
    """
    return derive_seed("solution", problem_id, solution)


def label_draw(seed: int, key: int, *moment: object) -> float:
    """
    The label flips where this draw is below the rate of its true class. It knows nothing of the rate, so that a
    schedule of rates flips at every moment what a fixed rate of that height flips.

    Args:
        seed (`int`):
            Of the noise.
        key (`int`):
            See [`solution_key`].
        *moment (`object`):
            When the label is drawn anew, e.g. `("epoch", 1)`; nothing where it is drawn once.

    Returns:
        `float`: uniform in [0, 1).
    """
    return derive_uniform(seed, "label", *moment, key)


def pair_draw(seed: int, keys: tuple[int, int], *moment: object) -> float:
    """As [`label_draw`], for the order of a pair: `keys` are its two solutions', in the order that they came in."""
    return derive_uniform(seed, "pair", *moment, *keys)
