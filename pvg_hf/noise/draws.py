"""The uniform draws that determine the noise of a solution: of its label, and of a checker's call."""

from hashlib import blake2b

from pvg_hf.core.seeding import derive_seed, derive_uniform

_UNIT = 2.0**-53


def solution_key(problem_id: str, solution: str) -> int:
    """Return a solution's key for drawing its noise, in [0, 2**63). Equal texts of a problem have the same key."""
    return derive_seed("solution", problem_id, solution)


def label_draw(seed: int, key: int, *moment: object) -> float:
    """
    Draw the noise of a label: the label flips if the draw is below the rate of its true class.

    The draw is independent of the rate, so that a schedule of rates flips at each moment what a constant rate of the
    same value flips.

    Args:
        *moment: When the label is drawn again, e.g. `("epoch", 1)`; empty if it is drawn once.
    Returns: uniform in [0, 1).
    """
    return derive_uniform(seed, "label", *moment, key)


def pair_draw(seed: int, keys: tuple[int, int], *moment: object) -> float:
    """Draw the noise of a pair's order, like [`label_draw`]; `keys` are its solutions', in their original order."""
    return derive_uniform(seed, "pair", *moment, *keys)


def call_seed(seed: int, round_index: int, key: int, attempt: int) -> str:
    """
    Return the seed string of one call of the checker, e.g. `"0/2/check/00a1b2c3d4e5f607/1"`: the recipe's seed, the
    round, the [`solution_key`] in hexadecimal, and the attempt (0 for the first tier that is asked). Equal strings
    give equal draws.
    """
    return f"{seed}/{round_index}/check/{key:016x}/{attempt}"


def call_draws(seed: str) -> tuple[float, float]:
    """
    Return the draws of a checker's call, given its [`call_seed`].

    Returns: independent and uniform in [0, 1): which noise is injected, and how long a timeout lasts.
    """
    digest = blake2b(seed.encode(), digest_size=16).digest()
    which, how_long = int.from_bytes(digest[:8], "big") >> 11, int.from_bytes(digest[8:], "big") >> 11
    return which * _UNIT, how_long * _UNIT
