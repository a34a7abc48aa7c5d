"""Seeds derived from the recipe's seed and a path of names, so that no draw depends on order, batch or process."""

import hashlib

import numpy as np


def derive_seed(*path: object) -> int:
    """
    Hash the recipe's seed and a path of names to a seed in [0, 2**63), e.g. `derive_seed(seed, "round-002", "mint",
    problem_id)`.

    Parts are compared by their `str`; `("a", "b")` and `("ab",)` differ.
    """
    parts = [str(part).encode(errors="surrogatepass") for part in path]  # a text may hold half of a surrogate pair
    # Each part is preceded by its length, so that no two paths give the same message.
    message = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return int.from_bytes(hashlib.blake2b(message, digest_size=8).digest(), "big") >> 1


def derive_rng(*path: object) -> np.random.Generator:
    """Return a NumPy generator seeded with `path` (see [`derive_seed`])."""
    return np.random.default_rng(derive_seed(*path))


def derive_uniform(*path: object) -> float:
    """Return one uniform draw in [0, 1), seeded with `path` (see [`derive_seed`])."""
    return (derive_seed(*path) >> 10) / 2**53  # 53 bits, as many as a float's significand holds
