"""Atomic writes and crash-safe logs."""

import json
import logging
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)


class Journal:
    """
    Lines of JSON, each on the disk before [`append`] returns.

    Args:
        path (`Path`):
            The file; it is made with the first line.
        lock (`AbstractContextManager`):
            Held while a line is written: whoever uploads the file takes it too.
    """

    def __init__(self, path: Path, lock: AbstractContextManager):
        self.path = path
        self._lock = lock

    def read(self) -> list[dict[str, Any]]:
        """The lines that can be read; one that a crash cut short was never answered for and is left out."""
        if not self.path.exists():
            return []
        rows = [_parse(line) for line in self.path.read_bytes().splitlines() if line.strip()]
        num_lost = rows.count(None)
        if num_lost:
            logger.warning("%d line(s) of %s cannot be read and are left out.", num_lost, self.path)
        return [row for row in rows if row is not None]

    def append(self, row: dict[str, Any]) -> None:
        line = (json.dumps(row, ensure_ascii=False) + "\n").encode()
        with self._lock:
            is_new = not self.path.exists()
            with self.path.open("ab") as file:
                file.write(line if is_new or self._is_whole() else b"\n" + line)
                file.flush()
                os.fsync(file.fileno())
            if is_new:
                _sync_folder(self.path.parent)

    def rewrite(self, rows: Iterable[dict[str, Any]]) -> None:
        """Put `rows` in place of the lines, by one rename; a file that holds them already is left alone."""
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
        with self._lock:
            if self.path.exists() and self.path.read_bytes() == lines:
                return
            temporary = self.path.with_name(f".{self.path.name}.partial")
            temporary.write_bytes(lines)
            os.replace(temporary, self.path)

    def _is_whole(self) -> bool:
        """Whether the last line has its end."""
        with self.path.open("rb") as file:
            if file.seek(0, os.SEEK_END) == 0:
                return True
            file.seek(-1, os.SEEK_END)
            return file.read() == b"\n"


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":  # elsewhere a folder cannot be opened
        return
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Flush every file of `folder` to the disk, so that the rename does not overtake the contents."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, sort_keys=True) + "\n")


def write_json_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def remove(folder: Path) -> None:
    """Delete a folder that may not be there."""
    shutil.rmtree(folder, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write a file by rename: it is whole or it is not there."""
    temporary = path.with_name(f".{path.name}.partial")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name beside `path`; moved to `path` when the block ends well, removed when it does not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)
