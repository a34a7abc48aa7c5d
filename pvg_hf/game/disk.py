"""A disk that fills up ends a run with one clear error."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from pvg_hf.game.errors import DiskFullError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_TOO_LITTLE = 2**20  # bytes; less is no room for anything


@contextmanager
def naming_full_disk(root: Path) -> Iterator[None]:
    """
    Tell a full disk from whatever the library that met it makes of it.

    Raises:
        DiskFullError: in place of any error that comes of a full disk.
    """
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as err:
        if not is_disk_full(err, root):
            raise
        raise DiskFullError(
            f"No room is left to write to ({root}, or the folder for temporary files): {err}. Everything that was "
            "finished is kept. Make room, then continue the run with the same command."
        ) from err


def is_disk_full(err: Exception, root: Path) -> bool:
    """Whether an error comes of a full disk; `root`, a folder on it, need not be made yet."""
    if isinstance(err, OSError) and err.errno in _FULL:
        return True
    # safetensors says it in its text only; torch's archives fail alike for any reason, when they are written or read
    is_told = isinstance(err, SafetensorError) and any(f"(os error {number})" in str(err) for number in _FULL)
    has_failed_to_write = "inline_container.cc" in str(err) and "StreamReader" not in str(err)
    existing = next(folder for folder in (root, *root.absolute().parents) if folder.exists())
    return is_told or has_failed_to_write or shutil.disk_usage(existing).free < _TOO_LITTLE
