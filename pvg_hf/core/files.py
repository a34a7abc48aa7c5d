"""Atomic writes and crash-safe logs."""

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame

logger = logging.getLogger(__name__)


Row = dict[str, Any]


def _encode(row: Row) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def _parse(line: bytes) -> Row | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


class Journal:
    """
    A file of JSON lines; each line is on the disk before [`append`] returns. The first one creates the file.

    The lock is held while a line is written, and by whatever uploads the file.
    """

    def __init__(self, path: Path, lock: AbstractContextManager | None = None):
        self.path = path
        self._lock = nullcontext() if lock is None else lock

    def scan(self) -> tuple[list[Row], int]:
        """Return the readable rows and the number of other lines; the last line may be half-written."""
        lines = self.path.read_bytes().splitlines() if self.path.exists() else []
        lines = [line for line in lines if line.strip()]
        rows = [row for row in map(_parse, lines) if row is not None]
        return rows, len(lines) - len(rows)

    def read(self) -> list[Row]:
        """Return all readable rows. A line that a crash cut short was never acknowledged, so it is skipped."""
        rows, num_lost = self.scan()
        if num_lost:
            logger.warning("Skipping %d unreadable line(s) of %s.", num_lost, self.path)
        return rows

    def append(self, *rows: Row) -> None:
        self.append_lines("".join(map(_encode, rows)))

    def append_lines(self, lines: str) -> None:
        """Append encoded rows."""
        content = lines.encode()
        with self._lock:
            is_new = not self.path.exists()
            with self.path.open("ab") as file:
                file.write(content if is_new or self._is_whole() else b"\n" + content)
                file.flush()
                os.fsync(file.fileno())
            if is_new:
                # A new file is only found after a crash if its folder's entry is on the disk.
                _sync_folder(self.path.parent)

    def rewrite(self, rows: Iterable[Row]) -> None:
        """Replace the whole file by `rows`, in one rename; do nothing if it holds them already."""
        with self._lock:
            self._replace("".join(map(_encode, rows)).encode())

    def keep(self, is_kept: Callable[[Row], bool] = lambda row: True) -> None:
        """Drop unreadable lines and the rows that `is_kept` refuses, in one rename; kept lines do not change."""
        with self._lock:  # from reading to renaming, or a line that is appended in between would be lost
            lines = self.path.read_bytes().splitlines(keepends=True)
            parsed = [_parse(line) if line.endswith(b"\n") else None for line in lines]
            if None in parsed[:-1]:
                logger.warning("Dropping %d unreadable line(s) of %s.", parsed.count(None), self.path)
            kept = [line for line, row in zip(lines, parsed, strict=True) if row is not None and is_kept(row)]
            self._replace(b"".join(kept))

    def _replace(self, content: bytes) -> None:
        if not self.path.exists() or self.path.read_bytes() != content:
            write_bytes(self.path, content)

    def _is_whole(self) -> bool:
        """Whether the last line is complete."""
        with self.path.open("rb") as file:
            if file.seek(0, os.SEEK_END) == 0:
                return True
            file.seek(-1, os.SEEK_END)
            return file.read() == b"\n"


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


def write_parquet(path: Path, rows: "DataFrame") -> None:
    """Write a table without its index, see [`replacing`]. Its pages have checksums, so that readers notice damage."""
    with replacing(path) as temporary:
        rows.to_parquet(temporary, index=False, write_page_checksum=True)


def remove(folder: Path) -> None:
    """Delete a folder if it exists."""
    shutil.rmtree(folder, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file that is either complete or absent, see [`replacing`]."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """
    Yield a temporary path. If the block succeeds, the file is flushed to the disk and renamed to `path`; if it fails,
    it is deleted.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.partial")
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)
