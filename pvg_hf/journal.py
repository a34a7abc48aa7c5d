"""An append-only file of lines that survives whatever ends the process."""

import json
import logging
import os
from collections.abc import Iterable
from contextlib import AbstractContextManager
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
