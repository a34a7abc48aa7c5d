"""What is noted of a phase in its folder: how many processes play it, for how long, and what it came to."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from pvg_hf.game.folder import write_json
from pvg_hf.integrity import DamagedFileError, read_json, seal, unseal

_FILE = "phase.json"


@dataclass
class PhaseRecord:
    """
    Args:
        num_processes (`int`):
            That play the phase together.
        seconds (`float`):
            That the phase took, all starts together but for the one that is running.
        running_since (`float`, *optional*):
            Unix time at which the last start began; `None` once that came to its end, good or bad.
        summary (`str`):
            What a finished phase came to.
    """

    num_processes: int
    seconds: float = 0.0
    running_since: float | None = None
    summary: str = ""


def read_record(folder: Path) -> PhaseRecord | None:
    """
    The record of a phase's folder, finished or not; `None` if there is none.

    Raises:
        DamagedFileError: if it is damaged.
    """
    file = folder / _FILE
    if not file.exists():
        return None
    try:
        return PhaseRecord(**unseal(file, read_json(file)))
    except (AttributeError, TypeError) as err:  # not a mapping, or one of other keys
        raise DamagedFileError(file, f"is damaged ({err})") from err


def _write_record(folder: Path, record: PhaseRecord) -> None:
    write_json(folder / _FILE, seal(asdict(record)))


@contextmanager
def recording(partial: Path, num_processes: int, *, is_main: bool) -> Iterator[PhaseRecord]:
    """
    Time a phase within the block, on top of earlier starts. The main process keeps the record in `partial`, also where
    the block fails.
    """
    earlier, started = _seconds_so_far(partial) if is_main else 0.0, time.monotonic()
    record = PhaseRecord(num_processes, earlier, running_since=time.time())
    if is_main:
        _write_record(partial, record)
    try:
        yield record
    finally:
        record.seconds, record.running_since = earlier + time.monotonic() - started, None
        if is_main:
            _write_record(partial, record)


def _seconds_so_far(partial: Path) -> float:
    """Of earlier starts. One that was killed came to no end; it ran at least until something was written last."""
    record = read_record(partial)
    if record is None:
        return 0.0
    if record.running_since is None:
        return record.seconds
    last_written = max(path.stat().st_mtime for path in partial.rglob("*"))
    return record.seconds + max(0.0, last_written - record.running_since)
