"""Makes datasets from streamed batches: small ones in memory, large ones on disk."""

import atexit
import itertools
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa
from datasets import Dataset

if sys.platform != "win32":
    import fcntl

MAX_BYTES_IN_MEMORY = 64 * 2**20

_PREFIX, _LOCK = "pvg-hf-", "lock"  # prefix of a folder's name, and name of the file in it that its process locks


def spill_dataset(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, *, max_bytes: int = MAX_BYTES_IN_MEMORY
) -> Dataset:
    """
    Collect batches to a dataset without holding more than `max_bytes` of them in memory.

    Args:
        schema: The schema, with the features in its metadata (as in `Features.arrow_schema`).
        max_bytes: A larger dataset is memory-mapped from an Arrow file in the system's temporary folder (`TMPDIR`).
            The file is removed when the process ends or, if the process is killed, by the next process that needs such
            a file. No other cache file is written.
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
    # Without a fingerprint, `Dataset` would pickle the whole table to compute one.
    return Dataset(pa.Table.from_batches(held, schema), fingerprint=digest.hexdigest())


def _memory_mapped(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Dataset:
    path = _make_folder() / "data.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return Dataset.from_file(str(path))


def _make_folder() -> Path:
    """Create a temporary folder for this process, after removing those of killed processes."""
    root = Path(tempfile.gettempdir())
    for lock in root.glob(f"{_PREFIX}*/{_LOCK}"):
        if not _is_held(lock):
            shutil.rmtree(lock.parent, ignore_errors=True)
    new = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}"))
    if sys.platform == "win32":
        folder = new
    else:
        # The system releases the lock when the process ends in any way. The folder has another name until the lock is
        # held, so that no process finds it unlocked.
        fcntl.flock(os.open(new / _LOCK, os.O_CREAT | os.O_RDWR), fcntl.LOCK_EX)
        folder = new.rename(root / new.name.removeprefix("."))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _is_held(lock: Path) -> bool:
    """Whether a process holds the lock, or may: the folder is another user's or was removed."""
    if sys.platform == "win32":
        return True
    try:
        with lock.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    return False
