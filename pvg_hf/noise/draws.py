"""The uniform draws that decide what noise does to a solution: to its label, and to a check of it."""

from hashlib import blake2b

from pvg_hf.core.seeding import derive_seed, derive_uniform

_UNIT = 2.0**-53


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


def check_path(seed: int, round_index: int, key: int, attempt: int) -> str:
    """The path of names from which a check draws; `key` stands for the problem and the text of the solution."""
    return f"{seed}/{round_index}/check/{key:016x}/{attempt}"


def check_draws(path: str) -> tuple[float, float]:
    """
    The draws of one attempt at a check, by its [`check_path`]: one for each purpose, from one hash, as a check may cost no
    more than microseconds.

    Returns:
        `tuple[float, float]`: independent and uniform in [0, 1): which noise is injected, and how long it lasts.
    """
    digest = blake2b(path.encode(), digest_size=16).digest()
    which, how_long = int.from_bytes(digest[:8], "big") >> 11, int.from_bytes(digest[8:], "big") >> 11
    return which * _UNIT, how_long * _UNIT
