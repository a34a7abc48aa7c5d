"""Figures of a round's prover: parity, late changes, new texts, and false positives early in its training."""

import math
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pvg_hf.core.figure import Figure
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.data.pool import iterate_pool
from pvg_hf.evaluation.intervals import rate_by_problem, rate_difference
from pvg_hf.evaluation.role_figures import has_failed
from pvg_hf.run.stored import FalsePositiveRise


def parity_figures(lines: Sequence[Mapping[str, Any]]) -> dict[str, Figure]:
    """
    Read `parity_step` and `parity_gap`, without intervals, from the metrics of a prover phase.

    At parity, sneaky incorrect solutions score as high as helpful correct ones, in smoothed means. Empty if the phase
    did not train the sneaky role.
    """
    line = next((line for line in reversed(lines) if "prover/parity_num_steps" in line), None)
    if line is None:
        return {}
    num_steps = line["prover/parity_num_steps"]
    return {name: Figure(line.get(f"prover/{name}"), None, None, num_steps) for name in ("parity_step", "parity_gap")}


FIFTHS = 5


def late_changes(lines: Sequence[Mapping[str, Any]]) -> dict[str, Figure]:
    """
    Compute `late_change/ROLE`, without intervals, from the metrics of a prover phase; none for a role with fewer than
    five steps.

    It shows whether a role loses accuracy at the end of its training, as Kirchner et al. 2024 report of the helpful
    role.
    """
    figures = {}
    for role in GAME_ROLES:
        steps = [line[f"prover/accuracy/{role}"] for line in lines if line.get(f"prover/accuracy/{role}") is not None]
        size = len(steps) // FIFTHS
        if size:
            start = (len(steps) - size) // 2
            change = np.mean(steps[-size:]) - np.mean(steps[start : start + size])
            figures[f"late_change/{role}"] = Figure(float(change), None, None, size)
    return figures


def new_text_figures(earlier: Sequence[Path], current: Mapping[Role, Path]) -> dict[str, Figure]:
    """
    Compute `new_texts/...`: shares of a round's texts that are new to later verifiers.

    Texts are compared without surrounding white space, as for pairs, by hashes of 64 bits. Failed solutions, which are
    in no pair, do not count. `earlier` are the pool files of earlier rounds and of the base prover, `current` those of
    the round; `n` counts the distinct texts that a role wrote for its problems.
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


class WrongSolutions(NamedTuple):
    """
    Numbers of wrong solutions to one problem in one step of a training, and of those that one checker accepted.

    `step` counts the steps that the prover had been trained before. The checker is `labels` (the observed labels that
    the reward uses) or `verifier` (scores that it accepts).
    """

    step: int
    problem_id: str
    checker: str
    role: str
    wrong: int
    accepted: int


def last_early_step(num_steps: int, share: float, steps_per_batch: int = 1) -> int:
    """Return the last step in the first `share`, in (0, 1), of planned steps, or of the batch after the first."""
    return max(math.ceil(share * num_steps) - 1, steps_per_batch)


def false_positive_rises(rows: Iterable[Mapping[str, Any]]) -> list[FalsePositiveRise]:
    """
    Compare the shares of accepted wrong solutions before and early in a training, by checker and role, sorted.

    `rows` are fields of [`WrongSolutions`], of the steps up to [`last_early_step`]. A side without any has an empty
    figure.
    """
    cells: dict[tuple[str, str], tuple[list, list]] = {}
    for row in rows:
        sides = cells.setdefault((row["checker"], row["role"]), ([], []))
        sides[row["step"] > 0].append(row)
    return [
        FalsePositiveRise(
            *place, _share(before), _share(early), rate_difference(*_verdicts(early), *_verdicts(before))
        )
        for place, (before, early) in sorted(cells.items())
    ]


def is_collapse_expected(rise: Figure, limit: float) -> bool:
    """Whether a rise is at least `limit` and its interval excludes 0, so that few wrong solutions raise no alarm."""
    return rise.value is not None and rise.value >= limit and rise.bounds[0] > 0


def _share(rows: list[Mapping[str, Any]]) -> Figure:
    return rate_by_problem(*_verdicts(rows))


def _verdicts(rows: list[Mapping[str, Any]]) -> tuple[np.ndarray, list[str]]:
    """Return 1 or 0 for each wrong solution, and its problem."""
    verdicts = [np.arange(row["wrong"]) < row["accepted"] for row in rows]
    problem_ids = [row["problem_id"] for row in rows for _ in range(row["wrong"])]
    return np.concatenate([np.zeros(0), *verdicts]), problem_ids
