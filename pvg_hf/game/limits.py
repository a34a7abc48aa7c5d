"""Errors that no recipe causes: a full disk and too little memory."""

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from pvg_hf.config import Recipe
from pvg_hf.config.recipe import list_memory_settings
from pvg_hf.core.commands import play_command, pvg_command
from pvg_hf.run.layout import RunFolder


class DiskFullError(OSError):
    """The disk is full."""


class OutOfMemory(RuntimeError):
    """A phase does not fit in the memory of its device."""


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

_UNWRITABLE = frozenset({errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ENAMETOOLONG})

_TOO_LITTLE = 2**20  # bytes; with less free space, a disk counts as full


@contextmanager
def naming_full_disk(root: Path) -> Iterator[None]:
    """
    Convert errors of a full disk to `DiskFullError`, and those about missing write permission below `root` to
    `ValueError`.
    """
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as err:
        if is_unwritable(err, root):
            raise ValueError(
                f"{root} cannot be written to: {err}. All finished phases are kept. Make it writable for this user, or"
                " name another `output_dir`; then start with the same command."
            ) from err
        if not is_disk_full(err, root):
            raise
        raise DiskFullError(
            f"The disk is full ({root}, or the folder for temporary files): {err}. All finished phases are kept. Free"
            " some space, then resume the run with the same command."
        ) from err


def is_unwritable(err: Exception, root: Path) -> bool:
    """Whether an error says that `root`, or something in it, cannot be written or created."""
    if _number_of(err) not in _UNWRITABLE:
        return False
    if not isinstance(err, OSError):
        return True
    place = None if err.filename is None else Path(os.fsdecode(err.filename)).absolute()
    return place is not None and (place.is_relative_to(root.absolute()) or root.absolute().is_relative_to(place))


def _number_of(err: Exception) -> int | None:
    """The operating system's error number; safetensors reports it only in its text."""
    if isinstance(err, OSError):
        return err.errno
    found = re.search(r"\(os error (\d+)\)", str(err)) if isinstance(err, SafetensorError) else None
    return int(found[1]) if found else None


def is_disk_full(err: Exception, root: Path) -> bool:
    """Whether an error was caused by a full disk; the folder `root` on it need not exist yet."""
    number = _number_of(err)
    if number is not None:
        return number in _FULL
    # torch's archives fail with the same error for any reason, when they are written or read
    has_failed_to_write = "inline_container.cc" in str(err) and "StreamReader" not in str(err)
    existing = next(folder for folder in (root, *root.absolute().parents) if folder.exists())
    return has_failed_to_write or shutil.disk_usage(existing).free < _TOO_LITTLE


@contextmanager
def naming_memory_settings(recipe: Recipe, phase: str) -> Iterator[None]:
    """Convert torch's out-of-memory error to an `OutOfMemory` that lists the settings to lower, in order of effect."""
    import torch  # late: the errors of this module are needed without it

    try:
        yield
    except torch.OutOfMemoryError as err:
        raise OutOfMemory(
            f"The {phase} phase does not fit in memory: {str(err).splitlines()[0]} In order of effect: "
            f"{list_memory_settings(recipe, phase)}. `{play_command(RunFolder.of(recipe).root, '--plan')}` estimates "
            f"each phase's peak. All finished phases are kept; "
            f"`{pvg_command('status', RunFolder.of(recipe).root)}` says which of the settings may still change."
        ) from err
