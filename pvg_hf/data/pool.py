"""Reads and writes the pool: Parquet files that are either complete or absent, in bounded memory."""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from datasets import Dataset, Features

from pvg_hf.core.files import replacing
from pvg_hf.core.integrity import naming_parquet
from pvg_hf.data.pairs.spill import spill_dataset

ROW_GROUP_SIZE = 8192
"""Number of rows held in memory at a time, when writing and reading."""

PathLike = str | os.PathLike[str]


def write_pool(path: PathLike, batches: Iterable[Sequence[dict[str, Any]]], features: Features) -> int:
    """
    Write rows to a Parquet file, which appears under its name only when it is complete and on disk.

    Equal rows give equal bytes, however they are batched. Every page has a checksum.

    Args:
        path (`str` or `PathLike`):
            The file to write or replace; its folder is created.
        batches (`Iterable[Sequence[dict[str, Any]]]`):
            Rows from [`~pvg_hf.data.schema.make_solution`], in batches of any size.
        features ([`~datasets.Features`]):
            The columns (see [`~pvg_hf.data.schema.solution_features`]).

    Returns:
        `int`: number of rows written.

    Raises:
        ValueError: if a row lacks a column or has an additional one.
    """
    num_rows = 0
    rows = chain.from_iterable(batches)
    with (
        replacing(Path(path)) as temporary,
        pq.ParquetWriter(temporary, features.arrow_schema, compression="zstd", write_page_checksum=True) as writer,
    ):
        # Regrouped, so that the file does not depend on the incoming batches.
        while group := list(islice(rows, ROW_GROUP_SIZE)):
            _check_keys(group, features)
            writer.write_table(pa.Table.from_pylist(group, schema=features.arrow_schema))
            num_rows += len(group)
    return num_rows


def iterate_pool(
    paths: PathLike | Sequence[PathLike], columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """
    Stream the rows of Parquet files, in the order of the files, at most `ROW_GROUP_SIZE` rows at a time.

    Args:
        columns (`Sequence[str]`, *optional*):
            Columns to read, in this order; all by default.

    Raises:
        FileNotFoundError: if a file does not exist.
        DamagedFileError: if a file is corrupt, truncated, or not as it was written.
        ValueError: if a file lacks a column.
    """
    for path in _list_paths(paths):
        with naming_parquet(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
            _check_columns(path, file.schema_arrow, columns)
            yield from file.iter_batches(batch_size=ROW_GROUP_SIZE, columns=columns, use_threads=False)


def load_pool(
    paths: PathLike | Sequence[PathLike], columns: Sequence[str] | None = None, *, parts: Collection[str] | None = None
) -> Dataset:
    """
    Load the rows of pool files as a dataset: in memory up to 64 MiB, else memory-mapped from a temporary file.

    Args:
        paths (`str`, `PathLike` or a sequence of them):
            Files of one task, with the same columns.
        columns (`Sequence[str]`, *optional*):
            Columns to read, in this order; all by default.
        parts (`Collection[str]`, *optional*):
            Parts of the split whose rows are kept; the others never occupy memory.

    Raises:
        FileNotFoundError: if a file does not exist.
        DamagedFileError: if a file is corrupt, truncated, or not as it was written.
        ValueError: if a file lacks a column, if no file is given, or if the files' columns differ.
    """
    files = _list_paths(paths)
    schema = _common_schema(files, columns)
    batches = iterate_pool(files, columns) if parts is None else _iterate_parts(files, schema.names, parts)
    return spill_dataset((pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches), schema)


def _iterate_parts(paths: Sequence[Path], columns: Sequence[str], parts: Collection[str]) -> Iterator[pa.RecordBatch]:
    wanted = pa.array(list(parts), pa.string())
    # `part` is read for filtering even if it is not requested.
    for batch in iterate_pool(paths, list(dict.fromkeys([*columns, "part"]))):
        yield batch.filter(pc.is_in(batch["part"], value_set=wanted)).select(list(columns))


def _list_paths(paths: PathLike | Sequence[PathLike]) -> list[Path]:
    return [Path(path) for path in ([paths] if isinstance(paths, str | os.PathLike) else paths)]


def _check_keys(rows: Sequence[dict[str, Any]], features: Features) -> None:
    for row in rows:
        if row.keys() != features.keys():
            missing, unknown = sorted(features.keys() - row.keys()), sorted(row.keys() - features.keys())
            raise ValueError(
                f"A row of problem `{row.get('problem_id')}` does not fit the pool: missing columns {missing}, "
                f"unknown columns {unknown}."
            )


def _check_columns(path: Path, schema: pa.Schema, columns: Sequence[str] | None) -> None:
    missing = [name for name in columns or () if name not in schema.names]
    if missing:
        raise ValueError(f"`{path}` lacks the columns {missing}; it has {schema.names}.")


def _common_schema(paths: Sequence[Path], columns: Sequence[str] | None) -> pa.Schema:
    """Return the schema of `columns`, which must be the same in all files."""
    if not paths:
        raise ValueError("No pool file was given; name at least one.")
    features = [_read_features(path, columns) for path in paths]
    for path, other in zip(paths, features):
        if other != features[0]:
            raise ValueError(
                f"`{path}` has the columns {dict(other)}, but `{paths[0]}` has {dict(features[0])}. Pools can be "
                "loaded together only if they are of one task."
            )
    return features[0].arrow_schema


def _read_features(path: Path, columns: Sequence[str] | None) -> Features:
    with naming_parquet(path):
        schema = pq.read_schema(path)
    _check_columns(path, schema, columns)
    # By the metadata of somebody else's file, a column could be decoded as pictures, from any place that it names.
    features = Features.from_arrow_schema(schema.remove_metadata())
    return Features({name: features[name] for name in columns or schema.names})
