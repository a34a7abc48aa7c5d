"""Datasets from streamed batches: in memory while they are small, on disk once they are not."""

import atexit
import itertools
import shutil
import tempfile
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa
from datasets import Dataset

MAX_BYTES_IN_MEMORY = 64 * 2**20


def spool_dataset(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, *, max_bytes: int = MAX_BYTES_IN_MEMORY
) -> Dataset:
    """
    Gather batches into a dataset without ever holding more than `max_bytes` of them.

    Args:
        batches (`Iterable[pa.RecordBatch]`):
            Batches of `schema`.
        schema (`pa.Schema`):
            With the features in its metadata, as `Features.arrow_schema` writes them.
        max_bytes (`int`, defaults to 64 MiB):
            A larger dataset goes to an Arrow file in the system's temporary folder (`TMPDIR`), is memory-mapped from
            there, and is removed when the process ends. No other cache file is written.
    """
    batches = iter(batches)
    held: list[pa.RecordBatch] = []
    num_bytes, digest = 0, blake2b(schema.serialize(), digest_size=8)
    for batch in batches:
        held.append(batch)
        num_bytes += batch.nbytes
        digest.update(batch.serialize())
        if num_bytes > max_bytes:
            return _memory_mapped(itertools.chain(held, batches), schema)
    # Without a fingerprint `Dataset` would pickle the whole table to make one.
    return Dataset(pa.Table.from_batches(held, schema), fingerprint=digest.hexdigest())


def _memory_mapped(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Dataset:
    folder = Path(tempfile.mkdtemp(prefix="pvg-hf-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "data.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return Dataset.from_file(str(path))
