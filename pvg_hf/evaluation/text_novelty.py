"""New texts of a round: those that no earlier prover has written for the same problem."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pandas as pd

from pvg_hf.core.figure import Figure
from pvg_hf.core.roles import Role
from pvg_hf.data.pool import iterate_pool
from pvg_hf.evaluation.intervals import rate_by_problem
from pvg_hf.evaluation.role_figures import has_failed


def new_text_figures(earlier: Sequence[Path], current: Mapping[Role, Path]) -> dict[str, Figure]:
    """
    Compute the share of a round's texts that are new to later verifiers.

    Texts are compared without surrounding white space, as for pairs, by hashes of 64 bits. Failed solutions, which are
    in no pair, do not count.

    Args:
        earlier (`Sequence[Path]`):
            Pool files of earlier rounds and of the base prover.
        current (`Mapping[Role, Path]`):
            Pool file of each role of the round.

    Returns:
        `dict[str, Figure]`: `new_texts/<role>_correct` and `new_texts/<role>_incorrect`; `n` is the number of distinct
        texts that the role wrote for its problems.
    """
    known = np.unique(np.concatenate([np.empty(0, np.uint64), *(_read_texts(path)["text"] for path in earlier)]))
    figures = {}
    for role, path in current.items():
        texts = _read_texts(path)
        is_correct = texts["correct"].astype(bool)
        for name, rows in (("correct", texts[is_correct]), ("incorrect", texts[~is_correct])):
            is_new = ~np.isin(rows["text"].to_numpy(np.uint64), known)
            figures[f"new_texts/{role}_{name}"] = rate_by_problem(is_new, rows["problem_id"])
    return figures


def _read_texts(path: Path) -> pd.DataFrame:
    """Read the distinct texts of each problem as hashes, with `problem_id` and `correct`."""
    blocks = [pd.DataFrame({"problem_id": [], "correct": [], "text": np.empty(0, np.uint64)})]
    for batch in iterate_pool(path, ["problem_id", "solution", "correct", "outcome"]):
        rows = batch.to_pandas()
        rows = rows[~has_failed(rows)]
        texts = [_hash(*row) for row in zip(rows["problem_id"], rows["solution"])]
        blocks.append(rows[["problem_id", "correct"]].assign(text=np.array(texts, np.uint64)))
    return pd.concat([block for block in blocks if len(block)] or blocks, ignore_index=True).drop_duplicates("text")


def _hash(problem_id: str, solution: str) -> int:
    digest = blake2b(f"{problem_id}\n{solution.strip()}".encode(errors="surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "big")
