"""Errors of the machine, not of the recipe: a full disk, and too little memory."""

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError

from pvg_hf.config import Recipe
from pvg_hf.estimate.memory import list_knobs


class DiskFullError(OSError):
    """There is no room for what a phase was about to write."""


class OutOfMemory(RuntimeError):
    """A phase does not fit in the memory of its device."""


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

_UNWRITABLE = frozenset({errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ENAMETOOLONG})

_TOO_LITTLE = 2**20  # bytes; less is no room for anything


@contextmanager
def naming_full_disk(root: Path) -> Iterator[None]:
    """
    Tell a full disk, and one that cannot be written to, from whatever the library that met it makes of it.

    Raises:
        DiskFullError: in place of any error that comes of a full disk.
        ValueError: in place of any error about a file below `root` that says that nothing can be written there.
    """
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as err:
        if is_unwritable(err, root):
            raise ValueError(
                f"{root} cannot be written to: {err}. Everything that was finished is kept. Make it writable for this user, or "
                "name another `output_dir`; then start with the same command."
            ) from err
        if not is_disk_full(err, root):
            raise
        raise DiskFullError(
            f"No room is left to write to ({root}, or the folder for temporary files): {err}. Everything that was "
            "finished is kept. Make room, then continue the run with the same command."
        ) from err


def is_unwritable(err: Exception, root: Path) -> bool:
    """Whether an error says that `root`, or something in it, may not be written, or cannot be made."""
    if _number_of(err) not in _UNWRITABLE:
        return False
    if not isinstance(err, OSError):
        return True
    place = None if err.filename is None else Path(os.fsdecode(err.filename)).absolute()
    return place is not None and (place.is_relative_to(root.absolute()) or root.absolute().is_relative_to(place))


def _number_of(err: Exception) -> int | None:
    """The system's number of an error; safetensors says it in its text only."""
    if isinstance(err, OSError):
        return err.errno
    found = re.search(r"\(os error (\d+)\)", str(err)) if isinstance(err, SafetensorError) else None
    return int(found[1]) if found else None


def is_disk_full(err: Exception, root: Path) -> bool:
    """Whether an error comes of a full disk; `root`, a folder on it, need not be made yet."""
    number = _number_of(err)
    if number is not None:
        return number in _FULL
    # torch's archives fail alike for any reason, when they are written or read
    has_failed_to_write = "inline_container.cc" in str(err) and "StreamReader" not in str(err)
    existing = next(folder for folder in (root, *root.absolute().parents) if folder.exists())
    return has_failed_to_write or shutil.disk_usage(existing).free < _TOO_LITTLE


@contextmanager
def naming_knobs(recipe: Recipe, phase: str) -> Iterator[None]:
    """
    Args:
        recipe ([`Recipe`]):
            Of the round.
        phase (`str`):
            Name of the phase, such as `prover`.

    Raises:
        OutOfMemory: in place of torch's error, with the settings that lower the phase's peak, in order of effect.
    """
    try:
        yield
    except torch.OutOfMemoryError as err:
        raise OutOfMemory(
            f"The {phase} phase does not fit in memory: {str(err).splitlines()[0]} In order of effect: "
            f"{list_knobs(recipe, phase)}. `--plan` estimates each phase's peak. Everything that was finished is kept; a changed "
            "recipe needs a `name` of its own."
        ) from err
