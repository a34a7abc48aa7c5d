"""Locks a run's folder, so that only one process plays a run at a time."""

import logging
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

logger = logging.getLogger(__name__)

if sys.platform != "win32":
    import fcntl


class RunLock:
    """
    The lock of a run's folder, as [`locked`] holds it: its file, if this process holds one, with the text `holder`.
    """

    def __init__(self, file: Path | None = None, holder: str = ""):
        self.file = file
        self.holder = holder

    def find_loss(self) -> str | None:
        """Return an error's text if the folder was deleted or moved since it was locked, else `None`."""
        if self.file is None:
            return None
        try:
            if self.file.read_text(encoding="utf-8") == self.holder:
                return None
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError:  # a network disk that does not answer; if it stays so, the next write fails
            return None
        return (
            f"{self.file.parent} was deleted, moved or replaced while it was played: its {self.file.name} is gone or"
            " another process's. A run that was moved resumes from its new place, named by `output_dir`."
        )


@contextmanager
def locked(root: Path, *, is_main: bool, user: str = "The run in {root} is being played") -> Iterator[RunLock]:
    """
    Lock a run's folder within the block. The file `.lock` in it names the process that holds the lock.

    A missing folder is created, and removed again if nothing was written into it. The system releases the lock when a
    process dies. Only the main process takes the lock, and none does on Windows. The error message begins with `user`,
    which says what the other process does.

    Raises `ValueError` if another process holds the lock, or the folder cannot be created; in place of any error in
    the block once the folder is gone.
    """
    if not is_main or sys.platform == "win32":
        yield RunLock()
        return
    is_new = not root.exists()
    try:
        root.mkdir(parents=True, exist_ok=True)
    except FileNotFoundError as err:  # e.g. in /proc
        raise ValueError(f"{root} cannot be created: {err.strerror}. Name another folder.") from err
    with (root / ".lock").open("a+", encoding="utf-8") as file:
        _take(file, root, user)
        lock = RunLock(root / ".lock", f"{os.getpid()} on {os.uname().nodename}")
        file.truncate(0)
        file.write(lock.holder)
        file.flush()
        try:
            yield lock
        except (OSError, RuntimeError, ValueError) as err:
            loss = lock.find_loss()
            if loss is None:
                raise
            raise ValueError(loss) from err
        finally:
            # Whether the block failed before it wrote anything.
            if is_new and lock.find_loss() is None and os.listdir(root) == [".lock"]:
                shutil.rmtree(root)
            fcntl.flock(file, fcntl.LOCK_UN)  # closing is not enough: a child process may have inherited the open file


def find_holder(root: Path) -> str | None:
    """Return the process that holds the lock of a folder, e.g. `4711 on node3`; `None` if none does, or on Windows."""
    if sys.platform == "win32":
        return None
    try:
        with (root / ".lock").open(encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # closing the file releases it at once
            except BlockingIOError:
                return file.read() or "unknown"
    except OSError:  # no file, no right to read it, or no locks on this file system
        return None
    return None


def _take(file, root: Path, user: str) -> None:
    try:
        _lock(file)
    except BlockingIOError as err:
        file.seek(0)
        raise ValueError(
            f"{user.format(root=root)} by process {file.read() or 'unknown'}. Wait until it has ended, or stop "
            "it (Ctrl-C, or `kill`); two processes would mix their results."
        ) from err
    except OSError as err:  # some network file systems do not support locks
        logger.warning("%s cannot be locked (%s): make sure that no second process plays this run.", root, err)


def _lock(file) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        time.sleep(0.1)  # perhaps it was `find_holder`, which holds the lock for a moment
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
