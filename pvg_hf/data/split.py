"""Splits a task's problems into parts for the verifier, for the prover and for reports."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from datasets import Dataset

from pvg_hf.config.fields import check_option
from pvg_hf.config.sections import SplitConfig
from pvg_hf.core.seeding import derive_uniform
from pvg_hf.tasks.base import PROBLEM_COLUMNS

PARTS = ("verifier", "verifier_heldout", "prover", "prover_heldout", "test")
VERIFIER_PARTS = PARTS[:2]

_DEFAULTS = SplitConfig()


def split_problems(
    train: Dataset,
    test: Dataset | None,
    *,
    seed: int,
    verifier_share: float = _DEFAULTS.verifier_share,
    heldout_share: float = _DEFAULTS.heldout_share,
    test_share: float = _DEFAULTS.test_share,
    stratify_by: str | None = None,
) -> dict[str, Dataset]:
    """
    Split problems by a hash of (seed, problem id) into the parts of a game.

    The part of a problem does not depend on other problems, unless the split is stratified: then the shares hold
    within each stratum, up to rounding.

    Args:
        train ([`~datasets.Dataset`]):
            Problems to split, with `problem_id` (unique), `problem` and `reference`.
        test ([`~datasets.Dataset`], *optional*):
            The task's own test split, which becomes the part `test` unchanged; `None` if the task has none.
        verifier_share (`float`, defaults to 0.5):
            Share of the game's problems for the verifier, in (0, 1); the prover gets the others.
        heldout_share (`float`, defaults to 0.1):
            Share of the verifier's problems, and of the prover's, that is held out, in (0, 1).
        test_share (`float`, defaults to 0.1):
            Share of `train` for the part `test`, in (0, 1); unused if `test` is given.
        stratify_by (`str`, *optional*):
            A column of `train`. Without it, the shares hold only in expectation.

    Returns:
        `dict[str, Dataset]`: a dataset for each of `PARTS`, in the order of the input rows.

    Raises:
        ValueError: if a share is outside its range, a column is missing, an id is repeated, the same text (up to white
            space) occurs in two parts, or a part is empty.
    """
    shares = {"verifier_share": verifier_share, "heldout_share": heldout_share, "test_share": test_share}
    for name, share in shares.items():
        check_option(SplitConfig, name, share)
    _check_columns("train", train, PROBLEM_COLUMNS if stratify_by is None else (*PROBLEM_COLUMNS, stratify_by))
    ids, texts = train["problem_id"][:], train["problem"][:]
    bounds = _part_bounds(verifier_share, heldout_share, test_share if test is None else 0.0)
    strata = None if stratify_by is None else train[stratify_by][:]
    # side="right": a position equal to a bound belongs to the next part.
    part_indices = np.searchsorted(bounds, _positions(ids, seed, strata), side="right")
    parts = [PARTS[index] for index in part_indices]
    if test is not None:
        _check_columns("test", test, PROBLEM_COLUMNS)
        ids, texts, parts = ids + test["problem_id"][:], texts + test["problem"][:], parts + ["test"] * len(test)
    _check_unique_ids(ids, texts, parts)
    _check_disjoint_texts(ids, texts, parts)
    _check_part_sizes(parts)
    split = {name: train.select(np.flatnonzero(part_indices == index)) for index, name in enumerate(PARTS)}
    return split if test is None else {**split, "test": test}


def normalized_text(text: str) -> str:
    """Collapse white space; two problems with the same normalised text are the same."""
    return " ".join(text.split())


def _part_bounds(verifier_share: float, heldout_share: float, test_share: float) -> np.ndarray:
    """Return the upper ends of all parts but the last, on the unit interval."""
    game, kept = 1 - test_share, 1 - heldout_share
    # On the unit interval: verifier (kept, held out), prover (kept, held out), test.
    prover_start = game * verifier_share
    return np.array([prover_start * kept, prover_start, prover_start + (game - prover_start) * kept, game])


def _positions(ids: Sequence[str], seed: int, strata: Sequence[object] | None) -> np.ndarray:
    """Return a point in [0, 1) for each problem; in a stratum they are equally spaced, at a random offset."""
    draws = np.array([derive_uniform(seed, "split", problem_id) for problem_id in ids])
    if strata is None:
        return draws
    members: dict[str, list[int]] = defaultdict(list)
    for index, stratum in enumerate(strata):
        members[str(stratum)].append(index)
    positions = np.empty(len(draws))
    for stratum, indices in members.items():
        # Systematic sampling: equally spaced points give each part its share of the stratum up to rounding.
        ranked = np.array(indices)[np.argsort(draws[indices])]
        offset = derive_uniform(seed, "split", "stratum", stratum)
        positions[ranked] = (np.arange(len(ranked)) + offset) / len(ranked)
    return positions


def _check_columns(name: str, problems: Dataset, columns: Iterable[str]) -> None:
    missing = [column for column in columns if column not in problems.column_names]
    if missing:
        raise ValueError(f"The {name} problems lack the columns {missing}; they have {problems.column_names}.")


def _check_unique_ids(ids: Sequence[str], texts: Sequence[str], parts: Sequence[str]) -> None:
    repeated = {problem_id: count for problem_id, count in Counter(ids).items() if count > 1}
    if not repeated:
        return
    example = next(iter(repeated))
    rows = [index for index, problem_id in enumerate(ids) if problem_id == example]
    num_texts = len({texts[index] for index in rows})
    raise ValueError(
        f"A `problem_id` must name one problem, but {len(repeated)} of them occur in several rows: `{example}` has "
        f"{len(rows)} rows with {num_texts} different texts, in the parts {sorted({parts[index] for index in rows})}. "
        "Rename or drop the repeated rows."
    )


def _check_disjoint_texts(ids: Sequence[str], texts: Sequence[str], parts: Sequence[str]) -> None:
    first_seen: dict[str, int] = {}
    leaks: list[tuple[int, int]] = []
    for index, text in enumerate(texts):
        first = first_seen.setdefault(normalized_text(text), index)
        if parts[first] != parts[index]:
            leaks.append((first, index))
    if leaks:
        (first, second), count = leaks[0], len(leaks)
        raise ValueError(
            f"The same problem text occurs in two parts in {count} {'case' if count == 1 else 'cases'}, for example "
            f"`{ids[first]}` in `{parts[first]}` and `{ids[second]}` in `{parts[second]}`: {texts[second][:80]!r}. "
            "Drop one of each from the task's problems."
        )


def _check_part_sizes(parts: Iterable[str]) -> None:
    counts = Counter(parts)
    empty = [name for name in PARTS if not counts[name]]
    if empty:
        sizes = ", ".join(f"{name} {counts[name]}" for name in PARTS)
        raise ValueError(
            f"The split leaves {', '.join(f'`{name}`' for name in empty)} empty (sizes: {sizes}). Every part needs at "
            "least one problem: provide more problems or larger shares."
        )
