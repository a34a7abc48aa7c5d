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
    A file of JSON lines; each line is on the disk before [`append`] returns.

    Args:
        path (`Path`):
            The file; the first line creates it.
        lock (`AbstractContextManager`):
            Held while a line is written, and by whatever uploads the file.
    """

    def __init__(self, path: Path, lock: AbstractContextManager):
        self.path = path
        self._lock = lock

    def read(self) -> list[dict[str, Any]]:
        """Return all readable lines. A line that a crash cut short was never acknowledged, so it is skipped."""
        if not self.path.exists():
            return []
        rows = [_parse(line) for line in self.path.read_bytes().splitlines() if line.strip()]
        num_lost = rows.count(None)
        if num_lost:
            logger.warning("Skipping %d unreadable line(s) of %s.", num_lost, self.path)
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
        """Replace the whole file by `rows`, in one rename; do nothing if it holds them already."""
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
        with self._lock:
            if self.path.exists() and self.path.read_bytes() == lines:
                return
            temporary = self.path.with_name(f".{self.path.name}.partial")
            temporary.write_bytes(lines)
            os.replace(temporary, self.path)

    def _is_whole(self) -> bool:
        """Whether the last line is complete."""
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
    if os.name != "posix":  # only POSIX can open a folder
        return
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Flush every file of `folder` to the disk; otherwise a later rename could reach the disk before the contents."""
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
    """Delete a folder if it exists."""
    shutil.rmtree(folder, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write a file under a temporary name and rename it: it is either complete or absent."""
    temporary = path.with_name(f".{path.name}.partial")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path; it is renamed to `path` if the block succeeds, and deleted if it fails."""
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
