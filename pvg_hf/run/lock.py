"""One process plays a run at a time."""

import logging
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

logger = logging.getLogger(__name__)

if sys.platform != "win32":
    import fcntl


@contextmanager
def locked(root: Path, *, is_main: bool, user: str = "The run in {root} is being played") -> Iterator[None]:
    """
    Hold a run's folder within the block; `.lock` in it names the process that does. The folder is made if there is none,
    and removed again if nothing was written into it. The system releases the lock when a process dies. Processes other than the main one hold nothing, and on Windows none does.

    Args:
        root (`Path`):
            The folder.
        is_main (`bool`):
            Whether this is the main process.
        user (`str`, *optional*, defaults to `"The run in {root} is being played"`):
            What another process does that holds it, for the message.

    Raises:
        ValueError: if another process holds it, or it cannot be made.
    """
    if not is_main or sys.platform == "win32":
        yield
        return
    is_new = not root.exists()
    try:
        root.mkdir(parents=True, exist_ok=True)
    except FileNotFoundError as err:  # of a system's folder, such as /proc
        raise ValueError(f"{root} cannot be made: {err.strerror}. Name another one.") from err
    with (root / ".lock").open("a+", encoding="utf-8") as file:
        _take(file, root, user)
        file.truncate(0)
        file.write(f"{os.getpid()} on {os.uname().nodename}")
        file.flush()
        try:
            yield
        finally:
            if is_new and os.listdir(root) == [".lock"]:  # what was to come was refused
                shutil.rmtree(root)
            fcntl.flock(file, fcntl.LOCK_UN)  # closing alone does not: a child of this process may have it open too


def _take(file, root: Path, user: str) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as err:
        file.seek(0)
        raise ValueError(
            f"{user.format(root=root)} by process {file.read() or 'unknown'}. Wait until it has ended, or stop "
            "it (Ctrl-C, or `kill`); two processes would mix their results."
        ) from err
    except OSError as err:  # a network's file system may know no locks
        logger.warning("%s cannot be locked (%s): see to it that no second process plays this run.", root, err)
