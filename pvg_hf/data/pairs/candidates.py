"""The solutions of a pool that can be used in pairs, without their texts, so that a million fit in memory."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pvg_hf.core.roles import Role
from pvg_hf.data.pool import PathLike, iterate_pool
from pvg_hf.data.schema import FAILED_OUTCOMES

ROLES = tuple(Role)

CANDIDATE = np.dtype(
    [
        ("row", "i8"),  # position in the stream of the pool's files
        ("problem", "i4"),  # index into the problem ids
        ("round_index", "i4"),
        ("role", "i1"),  # index into ROLES
        ("sample_index", "i4"),
        ("label", "i1"),  # the label shown to the verifier: 1 correct, 0 incorrect
        ("correct", "?"),  # the truth
        ("text_hash", "u8"),
    ]
)

IDENTITY = ("text_hash", "sample_index", "role", "round_index", "problem")
"""
Fields that order candidates independently of files and rows; the least significant comes first, as for `np.lexsort`.
"""

_COLUMNS = ("problem_id", "part", "role", "round_index", "sample_index", "label", "correct", "outcome", "solution")


@dataclass
class Candidates:
    """
    The solutions that can be used in pairs, and counts of the others.

    Args:
        rows (`np.ndarray` of shape `(num_candidates,)` and type `CANDIDATE`):
            Sorted by problem, round, role and sample. The texts that a source (the base prover or a round) wrote for a
            problem are distinct up to surrounding white space; several sources may have written the same one.
        problem_ids (`list[str]`):
            Sorted ids of all problems that were read, including those without a candidate.
        num_solutions (`int`):
            Number of solutions read in the requested parts.
        dropped (`Counter[str]`):
            Number of those that are no candidates, by the first reason that applies.
        failed (`Counter[str]`):
            Number of those dropped as `failed`, by outcome code.
    """

    rows: np.ndarray
    problem_ids: list[str]
    num_solutions: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)


def read_candidates(
    pool_paths: PathLike | Sequence[PathLike],
    *,
    parts: Collection[str],
    rounds: Collection[int],
    skip_references: bool = False,
) -> Candidates:
    """
    Read the candidates of a pool in one streamed pass.

    Args:
        pool_paths (`str`, `PathLike` or a sequence of them):
            The pool's files.
        parts (`Collection[str]`):
            Parts of the split to read; solutions of other parts are not counted.
        rounds (`Collection[int]`):
            Rounds to read; solutions of others are counted as dropped.
        skip_references (`bool`, defaults to `False`):
            Whether to drop texts that equal their problem's reference.
    """
    result = Candidates(np.empty(0, CANDIDATE), [])
    codes: dict[str, int] = {}
    blocks, num_rows = [result.rows], 0
    columns = [*_COLUMNS, "reference"] if skip_references else list(_COLUMNS)
    for batch in iterate_pool(pool_paths, columns):
        rows = np.arange(num_rows, num_rows + batch.num_rows)
        num_rows += batch.num_rows
        blocks.append(_candidates_of(batch, rows, parts, rounds, codes, result))
    result.rows = np.concatenate(blocks)
    _sort_problems(result, codes)
    _drop_duplicates(result)
    return result


def _candidates_of(
    batch: pa.RecordBatch,
    rows: np.ndarray,
    parts: Collection[str],
    rounds: Collection[int],
    codes: dict[str, int],
    result: Candidates,
) -> np.ndarray:
    """Return the candidates of one batch; adds its problems to `codes` and its counts to `result`."""
    is_in_parts = _is_in(batch["part"], parts)
    rows, batch = rows[is_in_parts], batch.filter(pa.array(is_in_parts))
    result.num_solutions += len(rows)
    problem = _problem_codes(batch["problem_id"], codes)
    is_kept = _count_drops(batch, rounds, result)
    rows, batch = rows[is_kept], batch.filter(pa.array(is_kept))

    block = np.empty(len(rows), CANDIDATE)
    block["row"], block["problem"] = rows, problem[is_kept]
    block["role"] = _role_codes(batch["role"])
    block["text_hash"] = _text_hashes(batch["solution"])
    for name in ("round_index", "sample_index", "label", "correct"):
        block[name] = batch[name].to_numpy(zero_copy_only=False)
    return _drop_references(block, batch["reference"], result) if "reference" in batch.schema.names else block


def _count_drops(batch: pa.RecordBatch, rounds: Collection[int], result: Candidates) -> np.ndarray:
    """Return a mask of the possible candidates, and count the other rows by the first reason that applies."""
    reasons = {
        "outside_mixture": ~_is_in(batch["round_index"], rounds),
        "failed": _is_in(batch["outcome"], FAILED_OUTCOMES),
        "abstained": batch["label"].is_null().to_numpy(zero_copy_only=False),
    }
    is_failed = ~reasons["outside_mixture"] & reasons["failed"]
    result.failed.update(batch["outcome"].filter(pa.array(is_failed)).to_pylist())
    is_kept = np.ones(len(batch), dtype=bool)
    for reason, applies in reasons.items():
        result.dropped[reason] += int((is_kept & applies).sum())
        is_kept &= ~applies
    return is_kept


def _drop_references(block: np.ndarray, references: pa.Array, result: Candidates) -> np.ndarray:
    is_reference = block["text_hash"] == _text_hashes(references)
    result.dropped["same_as_reference"] += int(is_reference.sum())
    return block[~is_reference]


def _sort_problems(result: Candidates, codes: dict[str, int]) -> None:
    """Renumber the problems by their sorted ids; `codes` numbers them in order of appearance."""
    result.problem_ids = sorted(codes)
    new_codes = np.empty(len(codes), dtype=np.int32)
    new_codes[[codes[problem_id] for problem_id in result.problem_ids]] = np.arange(len(codes))
    result.rows["problem"] = new_codes[result.rows["problem"]]


def _drop_duplicates(result: Candidates) -> None:
    """Keep each text of a problem once per round, for the first role and sample that wrote it."""
    rows = result.rows
    texts = ("text_hash", "round_index", "problem")
    rows = rows[np.lexsort([rows[name] for name in ("sample_index", "role", *texts)])]
    is_first = np.ones(len(rows), dtype=bool)
    is_first[1:] = np.any([rows[name][1:] != rows[name][:-1] for name in texts], axis=0)
    result.dropped["duplicate_text"] += int((~is_first).sum())
    rows = rows[is_first]
    result.rows = rows[np.lexsort([rows[name] for name in IDENTITY])]


def _is_in(column: pa.Array, values: Collection[object]) -> np.ndarray:
    allowed = pa.array(list(values), type=column.type)
    return pc.is_in(column, value_set=allowed).to_numpy(zero_copy_only=False)


def _problem_codes(ids: pa.Array, codes: dict[str, int]) -> np.ndarray:
    encoded = ids.dictionary_encode()
    known = np.array([codes.setdefault(problem_id, len(codes)) for problem_id in encoded.dictionary.to_pylist()])
    return known.astype(np.int32)[encoded.indices.to_numpy()]


def _role_codes(roles: pa.Array) -> np.ndarray:
    encoded = roles.dictionary_encode()
    known = np.array([ROLES.index(Role(role)) for role in encoded.dictionary.to_pylist()], dtype=np.int8)
    return known[encoded.indices.to_numpy()]


def _text_hashes(texts: pa.Array) -> np.ndarray:
    """Hash the texts without surrounding white space to 64 bits; unlike `hash`, the same in every process."""
    digests = b"".join(blake2b(text.strip().encode(), digest_size=8).digest() for text in texts.to_pylist())
    return np.frombuffer(digests, dtype=np.uint64)
