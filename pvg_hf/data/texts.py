"""Texts of some rows of a pool, fetched in one streamed pass."""

import os
import tempfile
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pvg_hf.data.pool import PathLike, iterate_pool


class RowTexts:
    """
    One text column of some rows, kept in a temporary file (in `TMPDIR`) that goes with the object, so that memory does
    not grow with the texts, yet any of them is at hand in any order.

    Args:
        pool_paths (`str`, `PathLike` or a sequence of them):
            The pool's files.
        column (`str`):
            A column of texts without nulls in the rows wanted.
        rows (`np.ndarray` of shape `(num_rows,)`):
            Positions in the stream of the files; repeats are kept once.
    """

    def __init__(self, pool_paths: PathLike | Sequence[PathLike], column: str, rows: np.ndarray):
        self.rows = np.unique(rows)
        self.file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (closed with the object)
        lengths, first = [np.zeros(1, dtype=np.int64)], 0
        for batch in iterate_pool(pool_paths, [column]):
            start, end = np.searchsorted(self.rows, (first, first + len(batch)))
            texts = batch[column].take(pa.array(self.rows[start:end] - first))
            self.file.write("".join(texts.to_pylist()).encode())
            lengths.append(pc.binary_length(texts).to_numpy())
            first += len(batch)
        self.offsets = np.cumsum(np.concatenate(lengths), dtype=np.int64)

    def take(self, rows: np.ndarray) -> list[str]:
        """The texts of `rows`, each one of those asked for at the start."""
        index = np.searchsorted(self.rows, rows)
        return [self._read(*span) for span in zip(self.offsets[index].tolist(), self.offsets[index + 1].tolist())]

    def _read(self, start: int, end: int) -> str:
        self.file.seek(start, os.SEEK_SET)
        return self.file.read(end - start).decode()
