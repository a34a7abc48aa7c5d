"""Texts of some rows of a pool, fetched in one streamed pass."""

import os
import tempfile
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pvg_hf.data.pool import PathLike, iterate_pool


class RowTexts:
    """
    Texts of some rows, kept in temporary files (in `TMPDIR`) that go with the object, so that memory does not grow with
    the texts, yet any of them is at hand in any order.

    Args:
        pool_paths (`str`, `PathLike` or a sequence of them):
            The pool's files.
        rows (`Mapping[str, np.ndarray]`):
            For each column of texts, without nulls there, the rows wanted: positions in the stream of the files, of which
            repeats are kept once. A column of which no row is wanted is not read.
    """

    def __init__(self, pool_paths: PathLike | Sequence[PathLike], rows: Mapping[str, np.ndarray]):
        self.columns = {name: _ColumnTexts(wanted) for name, wanted in rows.items()}
        read = {name: column for name, column in self.columns.items() if len(column.rows)}
        first = 0
        for batch in iterate_pool(pool_paths, list(read)):
            for name, column in read.items():
                column.add(batch[name], first)
            first += len(batch)

    def take(self, name: str, rows: np.ndarray) -> list[str]:
        """The texts of `rows` in the column `name`, each one of those asked for at the start."""
        return self.columns[name].take(rows)


class _ColumnTexts:
    """The texts of one column: one after another in a file, and where each begins."""

    def __init__(self, rows: np.ndarray):
        self.rows = np.unique(rows)
        self.offsets = np.zeros(len(self.rows) + 1, dtype=np.int64)
        self.file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (closed with the object)

    def add(self, texts: pa.Array, first: int) -> None:
        """Keep what is wanted of the rows from `first` on; they come in order."""
        start, end = np.searchsorted(self.rows, (first, first + len(texts)))
        texts = texts.take(pa.array(self.rows[start:end] - first))
        self.file.write("".join(texts.to_pylist()).encode())
        self.offsets[start + 1 : end + 1] = self.offsets[start] + np.cumsum(pc.binary_length(texts).to_numpy())

    def take(self, rows: np.ndarray) -> list[str]:
        index = np.searchsorted(self.rows, rows)
        return [self._read(*span) for span in zip(self.offsets[index].tolist(), self.offsets[index + 1].tolist())]

    def _read(self, start: int, end: int) -> str:
        self.file.seek(start, os.SEEK_SET)
        return self.file.read(end - start).decode()
